"""Differences as text: by view, what each is about, what one run had and what the other has."""

from __future__ import annotations

import itertools
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Iterator

from msgspec import Struct

from compdbg.compare.runs import Difference
from compdbg.report.text import clean
from compdbg.views.base import View

SHOWN = 12
"""Differences of one view that are printed; of the others only the number."""
KEYS = 3
"""Names that are printed of things that differ alike."""
LINES = 4


def render(view: View, width: int = 100) -> str:
    """A heading, then for each view its differences, `-` the first run and `+` the second."""
    out = [view.title, *view.lines]
    differences = (d for d in view.items if isinstance(d, Difference))
    for name, group in itertools.groupby(differences, key=lambda d: d.view):
        alike = list(_alike(group))
        out += ["", name]
        for each in alike[:SHOWN]:
            for key in each.keys[:KEYS]:
                out += _wrapped(key, "  ", width)
            if len(each.keys) > KEYS:
                out.append(f"  and {len(each.keys) - KEYS} more that differ alike")
            for sign, value in (("-", each.a), ("+", each.b)):
                if value is not None:
                    out += _wrapped(value, f"    {sign} ", width)
        rest = sum(len(each.keys) for each in alike[SHOWN:])
        if rest:
            out.append(f"  and {rest} more: --json")
    return "\n".join(line.rstrip() for line in out) + "\n"


class _Alike(Struct):
    """Things of one view that have the same before and after."""

    a: str | None
    b: str | None
    keys: list[str]


def _alike(differences: Iterable[Difference]) -> Iterator[_Alike]:
    found: dict[tuple[str | None, str | None], list[str]] = defaultdict(list)
    for each in differences:
        found[each.a, each.b].append(each.key)
    return (_Alike(a, b, keys) for (a, b), keys in found.items())


def _wrapped(text: str, lead: str, width: int) -> list[str]:
    """At most four lines of a text, the first after `lead`."""
    room = max(40, width - len(lead))
    lines = textwrap.wrap(clean(text), room) or [""]
    if len(lines) > LINES:
        lines = [*lines[: LINES - 1], lines[LINES - 1][: room - 1] + "…"]
    return [(lead if n == 0 else " " * len(lead)) + line for n, line in enumerate(lines)]
