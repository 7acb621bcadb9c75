"""Differences as text: by view, what each is about, what one run had and what the other has."""

from __future__ import annotations

import itertools
import textwrap

from compdbg.report.text import clean
from compdbg.views.base import View

SHOWN = 12
"""Differences of one view that are printed; of the others only the number."""


def render(view: View, width: int = 100) -> str:
    """A heading, then for each view its differences, `-` the first run and `+` the second."""
    out = [view.title, *view.lines]
    for name, group in itertools.groupby(view.items, key=lambda d: getattr(d, "view", "")):
        differences = list(group)
        out += ["", name]
        for each in differences[:SHOWN]:
            out += _wrapped(getattr(each, "key", ""), "  ", width)
            for sign, value in (("-", getattr(each, "a", None)), ("+", getattr(each, "b", None))):
                if value is not None:
                    out += _wrapped(value, f"    {sign} ", width)
        if len(differences) > SHOWN:
            out.append(f"  and {len(differences) - SHOWN} more: --json")
    return "\n".join(line.rstrip() for line in out) + "\n"


def _wrapped(text: str, lead: str, width: int) -> list[str]:
    """At most four lines of a text, the first after `lead`."""
    room = max(40, width - len(lead))
    lines = textwrap.wrap(clean(text), room) or [""]
    if len(lines) > 4:
        lines = [*lines[:3], lines[3][: room - 1] + "…"]
    return [(lead if n == 0 else " " * len(lead)) + line for n, line in enumerate(lines)]
