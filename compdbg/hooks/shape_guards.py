"""Guards over sizes: taken apart, with the user's line and the layer that added each."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from compdbg import probe
from compdbg.events import Guard
from compdbg.hooks import compile_facts
from compdbg.hooks.base import Patches, Target, contained
from compdbg.hooks.compile_facts import Facts, Place
from compdbg.hooks.size_branches import in_users_code

PLACE = Target("torch.fx.experimental.symbolic_shapes:ShapeEnv._get_sloc")
UNINTERESTING = Target("torch.fx.experimental.symbolic_shapes:uninteresting_files")

FROM_CACHE = "a cached artifact"
"""Asks for guards that AOTAutograd or Inductor added when the artifact was made."""
_CACHES = ("/aot_autograd_result.py", "/autograd_cache.py", "/_inductor/codecache.py")
_RANGE = re.compile(r"^(?P<low>-?\d+) <= (?P<of>.+?) <= (?P<high>-?\d+)$")
_SOURCE = re.compile(
    r"[LG]\['\w+'\](?:\.\w+(?!\w*\()|\[[^\]]*\])*(?:\.(?:size|stride)\(\)\[\d+\]|\.storage_offset\(\))?"
)


def install(patches: Patches) -> None:
    patches.wrap(UNINTERESTING, _hide_our_frames)
    patches.wrap(PLACE, _on_place)


def _hide_our_frames(original: Callable[..., Any]) -> Callable[..., Any]:
    """torch says of each guard where it came from: the innermost frame that is not plumbing. Ours are."""
    ours = {str(file) for file in Path(__file__).parent.glob("*.py")}

    def uninteresting_files() -> Any:
        files = original()
        files.update(ours)
        return files

    return uninteresting_files


def _on_place(original: Callable[..., Any]) -> Callable[..., Any]:
    def _get_sloc(self: Any, *args: Any, **kwargs: Any) -> Any:
        place = original(self, *args, **kwargs)
        if probe.active():
            facts = compile_facts.here()
            if facts is not None:
                with contained("guards"):
                    facts.places[str(place)] = _place(facts, sys._getframe(1))
        return place

    return _get_sloc


def _place(facts: Facts, frame: FrameType | None) -> Place:
    where = compile_facts.traced_line()
    if not facts.in_backend:
        return Place(where, "dynamo", in_users_code(frame))
    layer, function = _asks(frame)
    return Place(where, layer, False, function)


def _asks(frame: FrameType | None) -> tuple[str, str]:
    """Who asks, inside a backend: AOTAutograd while it traces, else a function of Inductor."""
    while frame is not None:
        name, function = frame.f_code.co_filename, frame.f_code.co_name
        if name.endswith(_CACHES):
            return "inductor", FROM_CACHE
        if "/torch/_functorch/" in name:
            return "aot", ""
        if "/torch/_inductor/" in name and not name.endswith(("/decomposition.py", "/sizevars.py")):
            return "inductor", function
        if name.endswith("/_dynamo/output_graph.py"):
            break
        frame = frame.f_back
    return "aot", ""


def shape_guards(texts: Iterable[str], facts: Facts) -> Iterator[tuple[Guard, Place]]:
    """Records for torch's verbose texts: `5 <= L['x'].size()[0]  # if n > 4:  # a.py:11 in f (…)`."""
    for text in dict.fromkeys(texts):
        expr, _, remark = text.partition("  # ")
        expr = expr.strip()
        found = _RANGE.match(expr)
        if found is None:
            yield _record(expr, facts.places.get(remark.strip()))
            continue
        low, high = _two_places(remark.strip(), facts.places)
        yield _record(f"{found['low']} <= {found['of']}", low)
        yield _record(f"{found['of']} <= {found['high']}", high)


def _two_places(remark: str, places: dict[str, Place]) -> tuple[Place | None, Place | None]:
    """torch joins the texts of a lower and an upper bound by `and`, which the code may hold too."""
    at = remark.find(" and ")
    while at >= 0:
        low, high = remark[:at], remark[at + 5 :]
        if low in places and high in places:
            return places[low], places[high]
        at = remark.find(" and ", at + 1)
    return places.get(remark), places.get(remark)


def _record(expr: str, place: Place | None) -> tuple[Guard, Place]:
    place = place or Place(None, "dynamo", False)
    source = next(iter(sources_in(expr)), "")
    return Guard(type="SHAPE_ENV", expr=expr, where=place.where, layer=place.layer, source=source), place


def sources_in(expr: str) -> list[str]:
    """The values that an expression over sizes is about: `L['x'].size()[0]`, `L['n']`."""
    return list(dict.fromkeys(found[0] for found in _SOURCE.finditer(expr)))
