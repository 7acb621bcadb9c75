"""How a size was served, in words: what its captures hold, and why calls were no replays."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from compdbg.model.sizes import ServedSize
from compdbg.views.places import counted

_HOLD = {
    "FULL": "one of the whole graph (FULL)",
    "PIECEWISE": "one for each compiled piece (PIECEWISE)",
}
_NOT_REPLAYED = {
    "too-large": "of more rows than the largest capture",
    "mode": "of mixed batches (FULL_DECODE_ONLY captures decode ones)",
    "empty": "without rows",
    "unpaddable": "that can't be padded",
    "failed": "whose capture failed",
    "layout": "with an input whose layout no padded buffer can have",
    "gradients": "that want gradients",
    "disagree": "whose inputs disagree on the size, or with the capture on dtype or device",
    "overlap": "with an input inside the memory of another, which the graph writes to",
    "moved": "with an input that is elsewhere than at capture",
    "changed": "with a value that has changed since capture",
    "form": "with metadata of another form than at capture",
}
"""Reasons of `Dispatch.uncaptured`, said of calls."""


def what_captures_hold(rows: Sequence[ServedSize]) -> list[str]:
    """A line on how captures are counted, if there are any, and one on graphs for which none are made."""
    modes = {mode for row in rows for mode in row.captures_by_mode}
    held = [said for mode, said in _HOLD.items() if mode in modes]
    none = dict.fromkeys(row.graph for row in rows if _is_without_captures(row))
    lines = [f"captures of a size: {', '.join(held)}"] if held else []
    return [*lines, *([f"{', '.join(none)}: no captures, cudagraph_mode is NONE"] if none else [])]


def padding_checked(rows: Sequence[ServedSize], leaking: Collection[tuple[str, int]]) -> str:
    """What COMPDBG_CHECK_PADDING came to; empty where it was not set. `leaking`: graph and size."""
    if all(row.padding_checks is None for row in rows):
        return ""
    checked = [row for row in rows if row.padding_checks]
    if not checked:
        return "padding checked: nothing, as no padded call was replayed"
    leaks = [str(row.size) for row in checked if (row.graph, row.size) in leaking]
    replays = counted(sum(row.padding_checks or 0 for row in checked), "replay")
    found = f"added rows leak at {', '.join(leaks)}" if leaks else "nothing leaked"
    return f"padding checked: {counted(len(checked), 'size')} ({replays}), {found}"


def compiled_as(served: ServedSize) -> str:
    """`1-`, or `8 tuned`: the size or range whose code runs."""
    return f"{served.compiled_as} tuned" if served.tuned else served.compiled_as or ""


def captures_said(served: ServedSize) -> str:
    """`1 full, 5 pieces`."""
    full, pieces = (served.captures_by_mode.get(mode, 0) for mode in _HOLD)
    said = [f"{full} full"] * bool(full) + [counted(pieces, "piece")] * bool(pieces)
    return ", ".join(said) or str(served.captures or "")


def replays_said(served: ServedSize) -> str:
    """`2`, or `2 full, 1 by piece` where both kinds of capture were replayed."""
    if len(served.replays_by_mode) < 2:
        return str(served.replays or "")
    words = {"FULL": "full", "PIECEWISE": "by piece"}
    return ", ".join(f"{n} {words.get(mode, mode)}" for mode, n in sorted(served.replays_by_mode.items()))


def trouble(served: ServedSize) -> str:
    """Why there is no capture, or why calls were no replays."""
    if served.fault:
        return f"not captured: {served.fault}"
    return "; ".join(not_replayed(served)) or (
        f"{counted(served.refused, 'call')} not replayed" if served.refused else ""
    )


def _is_without_captures(served: ServedSize) -> bool:
    """Nothing of the graph is to be captured, so that a call that is no replay is no trouble."""
    return served.largest is None and "mode" in served.uncaptured


def not_replayed(served: ServedSize) -> list[str]:
    """The calls without a capture that were no warm-ups, by the reason."""
    if _is_without_captures(served):
        return []
    return [
        f"{counted(calls, 'call')} {_NOT_REPLAYED.get(reason, f'({reason})')}"
        + (f": {served.why}" if reason == "unpaddable" and served.why else "")
        for reason, calls in served.uncaptured.items()
    ]
