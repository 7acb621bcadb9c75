"""`diverges`: a compiled graph gives other results than the same graph in eager."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from compdbg.findings.base import Cost, Finding
from compdbg.findings.words import at, counted, listed
from compdbg.model.numerics import Comparison
from compdbg.model.passes import Pass
from compdbg.model.run import Run


def diverges(run: Run) -> Iterator[Finding]:
    """One finding a function or model: its recompiles, sizes and ranks diverge together."""
    groups: dict[str, list[Comparison]] = defaultdict(list)
    for comparison in run.comparisons:
        if comparison.check == "differs":
            of_model = comparison.size is not None or comparison.apart_equal or comparison.piece
            groups[comparison.graph if of_model else comparison.frame].append(comparison)
    for name, found in groups.items():
        yield _of_model(run, found) if name == found[0].graph else _of_graph(found)


def _apart(first: Comparison) -> str:
    if first.form:
        return first.form
    if first.max_abs is None:
        return "NaN or infinity on one side, numbers on the other"
    return f"up to {first.max_abs:.3g}, {first.max_rel or 0.0:.3g} of the largest value"


def _of_graph(found: list[Comparison]) -> Finding:
    first, apart = found[0], _apart(found[0])
    name = first.frame.rpartition(":")[2] or "a graph"
    graphs = list(dict.fromkeys(c.graph for c in found))
    more = f" {counted(len(graphs), 'graph')} of this function differ." if len(graphs) > 1 else ""
    return Finding(
        code="diverges",
        severity="error",
        title=f"{name} gives other results compiled than in eager: {apart}",
        cause=(
            f"Graph {first.graph} of {at(first.where)}, compiled by {first.backend or 'its backend'}, "
            f"differs at call {first.call} in result {first.output} ({first.dtype}): {apart}. Eager was run "
            f"twice on the same inputs ({first.inputs}) and agreed with itself.{more}"
        ),
        suggestion=(
            "Run it with `--check-replacements --check-ops`, which try the commonest causes: a fusion and an "
            'operator. If they find none, compile with backend="aot_eager": results that then agree with '
            "eager leave Inductor's passes and kernels."
        ),
        where=first.where,
        evidence=[c.event for c in found],
        cost=Cost(results="wrong"),
        data={**_data(first), "graphs": graphs},
        subject=name,
    )


def _of_model(run: Run, found: list[Comparison]) -> Finding:
    """Of the built-in compiler: which size, which piece, which of its passes."""
    first = next((c for c in found if c.piece), found[0])
    passes = _passes(run, first)
    sizes = sorted({c.size for c in found if c.size is not None})
    size = "" if first.size is None else f" at size {first.size}"
    equal = sorted(
        {c.size for c in run.comparisons if c.graph == first.graph and c.check == "equal" and c.size}
    )
    return Finding(
        code="diverges",
        severity="error",
        title=f"{first.graph} gives other results compiled than in eager{size}"
        f"{f', from {first.piece} on' if first.piece else ''}: {_apart(first)}",
        cause=(
            f"Call {first.call} with {first.inputs}{_served(first)} differs from eager in result "
            f"{first.output} ({first.dtype}): {_apart(first)}. {_from(first, passes)} Eager was run twice on "
            "the same inputs, with what it writes put back, and agreed with itself. "
            f"{_over_sizes(sizes, equal)}"
        ),
        suggestion=_advice(first, passes),
        where=first.where,
        evidence=[c.event for c in found],
        cost=Cost(results="wrong"),
        data={
            **_data(first),
            "graphs": [first.graph],
            "size": first.size,
            "sizes": sizes,
            "padded_to": first.padded_to,
            "mode": first.mode,
            "piece": first.piece or None,
            "passes": [each.name for each in passes],
        },
        subject=first.graph,
    )


def _data(first: Comparison) -> dict[str, Any]:
    return {
        "graph": first.graph,
        "call": first.call,
        "output": first.output,
        "max_abs": first.max_abs,
        "max_rel": first.max_rel,
        "form": first.form or None,
        "inputs": first.inputs,
    }


def _served(first: Comparison) -> str:
    said = [f"padded to {first.padded_to}"] if first.padded else []
    said += [f"with captures ({first.mode})"] if first.mode else []
    return f", {' and '.join(said)}," if said else ""


def _from(first: Comparison, passes: list[Pass]) -> str:
    if first.piece:
        by = "; no pass of the compiler changed it" if not passes else f", which {_changed(passes)}"
        return f"The first piece that differs by itself is {first.piece}{by}."
    if not first.apart_equal:
        return "Which piece it is could not be told."
    if first.padded:
        return "Each piece by itself gives what eager does: the rows that padding adds make the difference."
    return "Each piece by itself gives what eager does: how the call is served makes the difference."


def _changed(passes: list[Pass]) -> str:
    said = [f"`{each.name}`{_delta(each)}" for each in passes]
    return f"{'this pass has' if len(said) == 1 else 'these passes have'} changed: {listed(said)}"


def _delta(change: Pass) -> str:
    ops = [f"{count:+d} {op}" for op, count in change.op_delta.items()][:4]
    return f" ({', '.join(ops)})" if ops else ""


def _over_sizes(sizes: list[int], equal: list[int]) -> str:
    """Which sizes differ, and which do not."""
    right = [n for n in equal if n not in sizes]
    if not sizes:
        return ""
    differ = f"{'Size' if len(sizes) == 1 else 'Sizes'} {listed([str(n) for n in sizes])} " + (
        "differs" if len(sizes) == 1 else "differ"
    )
    return (
        f"{differ}; {listed([str(n) for n in right])} {'does' if len(right) == 1 else 'do'} not."
        if right
        else (f"{differ}.")
    )


def _advice(first: Comparison, passes: list[Pass]) -> str:
    if first.apart_equal and first.padded:
        return (
            "Run it again with COMPDBG_CHECK_PADDING=1, which says what the added rows get to, or capture "
            f"the exact size: add {first.size} to cudagraph_capture_sizes."
        )
    if first.apart_equal:
        return (
            "Run it again with -cc.cudagraph_mode=NONE: results that then agree with eager leave the "
            "capture, which may have frozen a value that is no input of the graph."
        )
    leave = f"Look at {listed([f'`{each.name}`' for each in passes])} first. " if passes else ""
    return (
        f"{leave}Run it with `--check-replacements --check-ops`, which try a fusion's replacement and an "
        "operator, and with -cc.backend=eager: results that then agree with eager leave passes and kernels."
    )


def _passes(run: Run, first: Comparison) -> list[Pass]:
    """The compiler's own passes that changed the piece, or the one that it shares its code with."""
    twins = {p.piece: p.shared_with for p in run.pieces if p.graph == first.graph}
    compiled = f"{first.graph} {twins.get(first.piece) or first.piece} "
    known: dict[str, Pass] = {}
    for each in run.changes:
        if each.subsystem == "compdbg" and each.graph.startswith(compiled):
            known.setdefault(each.name, each)
    return list(known.values()) if first.piece else []
