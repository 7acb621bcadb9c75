"""`fusion-no-candidate`: an enabled fusion ran on every graph and found nothing that it could fuse."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from compdbg.events import Pattern, PatternForm
from compdbg.findings.base import Cost, Finding
from compdbg.findings.words import listed
from compdbg.model.fusion import Fusion, PassFusion, in_words
from compdbg.model.fusion_rows import Applied
from compdbg.model.pipeline import SplitPiece
from compdbg.model.run import Run

_ADVICE = {
    "decomposed": "Call the op in the model, or register a pattern of the ops that it is made of.",
    "overload": "Register the pattern with the overload that the graph has.",
    "torch-function": "Run the pass after lowering to ATen: joint or post-grad.",
}


def fusion_no_candidate(run: Run) -> Iterator[Finding]:
    fusion, split = run.fusion, _split_graphs(run)
    broken = {problem.pass_name for _, problem in fusion.problems}
    applied: dict[str, list[Applied]] = defaultdict(list)
    for each in fusion.applied.values():
        applied[each.name].append(each)
    for whole in fusion.passes:
        if whole.custom and whole.outcome == "no-candidate" and whole.name not in broken:
            evidence = [id for a in applied[whole.name] for id, _ in a.runs][:20]
            patterns = [pattern for a in applied[whole.name] for pattern in a.patterns]
            apart = _apart(whole, patterns, split)
            yield _finding(fusion, whole, evidence) if apart is None else _split(whole, apart, evidence)


def is_idle(finding: Finding) -> bool:
    """Of a fusion that had nothing to do: where all are on there are many, and all else goes first."""
    return finding.code == "fusion-no-candidate" and finding.data.get("form") is None


class _Apart(NamedTuple):
    """A pattern whose ops are all in one model's graph, one of them in a piece of its own."""

    pattern: Pattern
    ops: list[str]
    piece: SplitPiece


def _split_graphs(run: Run) -> dict[str, list[SplitPiece]]:
    """The pieces of each graph that is split at an operator."""
    pieces: dict[str, list[SplitPiece]] = defaultdict(list)
    for piece in run.pieces:
        pieces[piece.graph].append(piece)
    return {graph: found for graph, found in pieces.items() if any(piece.split_op for piece in found)}


def _apart(whole: PassFusion, patterns: list[Pattern], split: dict[str, list[SplitPiece]]) -> _Apart | None:
    """Only the custom ops of a pattern are looked for: those of torch are others before lowering."""
    graphs = dict.fromkeys(str(row.graph).partition(" ")[0] for row in whole.rows)
    for pieces in [split[graph] for graph in graphs if graph in split]:
        there = {op for piece in pieces for op in piece.op_counts}
        for pattern in patterns:
            ops = list(dict.fromkeys(map(_plain, [*pattern.anchors, *pattern.ops])))
            if len(ops) < 2 or not there.issuperset(ops):
                continue
            for piece in pieces:
                if piece.kind == "splitting" and piece.split_op in ops:
                    return _Apart(pattern, ops, piece)
    return None


def _plain(op: str) -> str:
    """`compdbg.rotate.default` as a graph that is split has it: `compdbg::rotate`."""
    return "::".join(op.split(".")[:2])


def _split(whole: PassFusion, apart: _Apart, evidence: list[str]) -> Finding:
    op, graph = apart.piece.split_op, apart.piece.graph
    return Finding(
        code="fusion-no-candidate",
        severity="warning",
        title=f"{whole.name} can't fuse anything: {op} is a splitting operator",
        cause=(
            f"Pattern {apart.pattern.name} wants {listed(apart.ops)} in one graph. {graph} calls them all, "
            f"and is split at {op}, which runs by itself ({apart.piece.piece})."
        ),
        suggestion=f"Take {op} out of splitting_ops, or switch {whole.name} off.",
        evidence=[apart.piece.event, *evidence],
        cost=Cost(results="same"),
        data={
            "pass": whole.name,
            "pattern": apart.pattern.name,
            "form": "split-off",
            "wanted": ", ".join(apart.ops),
            "found": op,
        },
        subject=f"{whole.name}|split-off",
    )


def _finding(fusion: Fusion, whole: PassFusion, evidence: list[str]) -> Finding:
    forms = [(id, form) for id, form in fusion.forms if form.pass_name == whole.name]
    if forms:
        return _in_another_form(whole, forms[0][1], [*(id for id, _ in forms), *evidence])
    graphs = list(dict.fromkeys(row.graph for row in whole.rows))
    rows = sorted(whole.rows, key=lambda r: -(r.candidates or 0))
    return Finding(
        code="fusion-no-candidate",
        severity="info",
        title=f"{whole.name} ran and found nothing to fuse",
        cause=f"On graph {listed([str(graph) for graph in graphs], most=5)}: {rows[0].why}.",
        suggestion="Nothing to do, unless you expected it: compare with `compdbg show passes`.",
        evidence=evidence,
        cost=Cost(results="same"),
        data={"pass": whole.name, "graphs": graphs, "form": None, "why": rows[0].why},
        subject=whole.name,
    )


def _in_another_form(whole: PassFusion, form: PatternForm, evidence: list[str]) -> Finding:
    what = in_words(form)
    return Finding(
        code="fusion-no-candidate",
        severity="info" if form.form == "overload" else "warning",
        title=f"{whole.name} found nothing to fuse, but {what}",
        cause=f"Pattern {form.pattern} wants {form.wanted}. All of it is in graph {form.graph}, connected, "
        f"but {what}.",
        suggestion=_ADVICE[form.form],
        where=form.where,
        evidence=evidence,
        cost=Cost(results="same"),
        data={
            "pass": whole.name,
            "pattern": form.pattern,
            "form": form.form,
            "wanted": form.wanted,
            "found": form.found,
        },
        subject=f"{whole.name}|{form.form}",
    )
