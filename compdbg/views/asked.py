"""In words what the checks came to that a run was asked for."""

from __future__ import annotations

from compdbg.findings.words import listed
from compdbg.model.asked import Asked
from compdbg.model.run import Run
from compdbg.views.places import counted


def checks(run: Run) -> list[str]:
    """`--check-replacements compared 3 replacements`, a line a check."""
    return [_check(asked) for asked in run.asked]


def _check(asked: Asked) -> str:
    count = f"{counted(asked.compared, asked.what)}{asked.of}" if asked.compared else "nothing"
    said = f"{asked.option} compared {count}"
    return ": ".join(filter(None, [said, "; ".join(filter(None, [asked.why, asked.do]))]))


def in_vain(run: Run) -> str:
    """The checks that compared nothing, as half a sentence; empty if each compared something."""
    options = [asked.option for asked in run.asked if not asked.compared]
    return f"{listed(options)} compared nothing" if options else ""
