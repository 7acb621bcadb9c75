"""What changed between two runs: a row a difference, by view."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from compdbg.compare.runs import VIEWS, Difference
from compdbg.model.summary import Summary
from compdbg.views.base import Column, View
from compdbg.views.places import counted


def diff(differences: Sequence[Difference], a: Summary, b: Summary, names: tuple[str, str]) -> View:
    count = Counter(d.view for d in differences)
    told = ", ".join(f"{count[view]} in {view}" for view in VIEWS if count[view])
    return View(
        name="diff",
        title=f"{counted(len(differences), 'difference')} between {names[0]} and {names[1]}"
        if differences
        else f"No difference between {names[0]} and {names[1]}",
        items=differences,
        lines=[told] * bool(told) + [f"- {_run(names[0], a)}", f"+ {_run(names[1], b)}"],
        columns=(
            Column("view", lambda d: d.view),
            Column("change", lambda d: d.change),
            Column("what", lambda d: d.key, wide=True),
            Column("a", lambda d: d.a or "", wide=True),
            Column("b", lambda d: d.b or "", wide=True),
        ),
    )


def _run(name: str, run: Summary) -> str:
    state = "" if run.cold is None else ", cold" if run.cold else ", warm"
    return f"{name}: {' '.join(run.argv)}, torch {run.torch or 'not imported'}{state}"
