"""`fusion-no-candidate`: an enabled fusion ran on every graph and found nothing that it could fuse."""

from __future__ import annotations

from collections.abc import Iterator

from compdbg.events import PatternForm
from compdbg.findings.base import Cost, Finding
from compdbg.model.fusion import Fusion, PassFusion, in_words
from compdbg.model.run import Run

_ADVICE = {
    "decomposed": "Call the op in the model, or register a pattern of the ops that it is made of.",
    "overload": "Register the pattern with the overload that the graph has.",
    "torch-function": "Run the pass after lowering to ATen: joint or post-grad.",
}


def fusion_no_candidate(run: Run) -> Iterator[Finding]:
    fusion = run.fusion
    broken = {problem.pass_name for _, problem in fusion.problems}
    for whole in fusion.passes:
        if whole.custom and whole.outcome == "no-candidate" and whole.name not in broken:
            yield _finding(fusion, whole)


def _finding(fusion: Fusion, whole: PassFusion) -> Finding:
    forms = [(id, form) for id, form in fusion.forms if form.pass_name == whole.name]
    evidence = [id for a in fusion.applied.values() if a.name == whole.name for id, _ in a.runs][:20]
    if forms:
        return _in_another_form(whole, forms[0][1], [*(id for id, _ in forms), *evidence])
    graphs = list(dict.fromkeys(row.graph for row in whole.rows))
    rows = sorted(whole.rows, key=lambda r: -(r.candidates or 0))
    return Finding(
        code="fusion-no-candidate",
        severity="info",
        title=f"{whole.name} ran and found nothing to fuse",
        cause=f"On graph {', '.join(map(str, graphs[:5]))}: {rows[0].why}.",
        suggestion="Nothing to do, unless you expected it: compare with `compdbg show passes`.",
        evidence=evidence,
        cost=Cost(results="same"),
        data={"pass": whole.name, "graphs": graphs, "form": None},
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
