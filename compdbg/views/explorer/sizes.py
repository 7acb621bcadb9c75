"""Sizes: each size that was called or captured, and what served it; digits jump to a size."""

from __future__ import annotations

from collections.abc import Mapping

from compdbg.events import AddressChanged, Capture, Dispatch, PaddingLeak, StaleInput, Where
from compdbg.findings.base import Finding
from compdbg.model.sizes import ServedSize
from compdbg.views.base import Column, Source, View
from compdbg.views.explorer.base import Block, Page, Place, source_code
from compdbg.views.explorer.words import facts, listing
from compdbg.views.places import counted, place, size
from compdbg.views.served import (
    captures_said,
    compiled_as,
    not_replayed,
    padding_checked,
    replays_said,
    trouble,
    what_captures_hold,
)
from compdbg.views.sizes import leaks_by_size, sizes

_CHECK = {"equal": ("✓", "good"), "differs": ("✗", "bad")}


def sizes_view(source: Source) -> View:
    told = sizes(source)
    rows, leaks = source.run.sizes, leaks_by_size(source)
    return View(
        name="sizes",
        title="Sizes: how each was served",
        items=rows,
        columns=(
            Column("size", lambda s: str(s.size), align="right"),
            Column("served", lambda s: _served(s, leaks)[0], role=lambda s: _served(s, leaks)[1]),
            Column("as", compiled_as),
            Column("pad to", lambda s: str(s.padded_to or ""), align="right"),
            Column("caps", lambda s: str(s.captures or ""), align="right"),
            Column("replays", lambda s: str(s.replays or ""), align="right"),
            Column("eager", lambda s: str(s.eager_calls or ""), align="right"),
            Column("check", _check, role=lambda s: _CHECK.get(s.check, ("", "dim"))[1]),
            Column("graph", lambda s: s.graph),
            Column("trouble", _trouble, wide=True, role=lambda s: "bad" if s.fault else "warn"),
        ),
        lines=_lines(rows, leaks),
        empty=told.empty,
    )


def _served(served: ServedSize, leaks: Mapping[tuple[str, int], object]) -> tuple[str, str]:
    """How most calls of the size were served, in a word with its glyph."""
    if served.fault:
        return "✗ no capture", "bad"
    if served.padded_to not in (None, served.size) and served.replays:
        leaked = (served.graph, served.size) in leaks
        return (f"✗ by {served.padded_to}", "bad") if leaked else (f"✓ by {served.padded_to}", "good")
    if served.captured:
        return "✓ captured", "good"
    return ("! uncaptured", "warn") if served.uncaptured else ("· compiled", "")


def _check(served: ServedSize) -> str:
    mark = _CHECK.get(served.check, ("", ""))[0]
    return f"{mark} {served.check}" if mark else ""


def _trouble(served: ServedSize) -> str:
    said = trouble(served)
    if not said and served.check == "differs":
        return f"differs from eager by {served.max_abs:.3g}" if served.max_abs is not None else "differs"
    return said


def _lines(rows: list[ServedSize], leaks: Mapping[tuple[str, int], object]) -> list[str]:
    if not rows:
        return []
    replays, eager = sum(r.replays for r in rows), sum(r.eager_calls for r in rows)
    warm = sum(r.warm_ups for r in rows)
    captured = sum(r.captured for r in rows)
    said = f"{counted(len(rows), 'size')}, {captured} captured; {counted(replays, 'replay')}, "
    said += f"{counted(eager, 'call')} without a capture"
    said += f" ({warm} of them to warm up)" if warm else ""
    faults = [f"{r.size}: {r.fault}" for r in rows if r.fault]
    checked = padding_checked(rows, leaks)
    said_of_some = [f"not captured: {', '.join(faults)}"] * bool(faults) + [checked] * bool(checked)
    return [said, *what_captures_hold(rows), *said_of_some]


def size_page(source: Source, served: ServedSize) -> Page:
    where, stack = _failure(source, served)
    blocks: list[Block] = [
        *facts(
            ("", f"size {served.size} of {served.graph}: {_served(served, {})[0][2:]}", "title"),
            ("runs as", _runs_as(served)),
            ("calls", _calls(served)),
            ("check", _compared(source, served), _CHECK.get(served.check, ("", "dim"))[1]),
            ("capture", _captured(served)),
            ("without", ", ".join(not_replayed(served)), "warn"),
            ("why", served.why),
        )
    ]
    blocks += _failures(source, served)
    if stack:
        blocks.append(listing("the program, innermost last", stack))
    blocks += source_code(source, where)
    blocks += _replay_troubles(source, served)
    return Page(title=f"size {served.size} of {served.graph}", blocks=blocks, where=where)


def _runs_as(served: ServedSize) -> str:
    tuned = ", kernels chosen by timing" if served.tuned else ""
    compiled = f"compiled for {served.compiled_as}{tuned}" if served.compiled_as else ""
    is_padded = served.padded_to not in (None, served.size)
    padded = f"padded from {served.size} to {served.padded_to} rows" if is_padded else ""
    return ", ".join(filter(None, [padded, compiled]))


def _calls(served: ServedSize) -> str:
    modes = f" ({replays_said(served)})" if len(served.replays_by_mode) > 1 else ""
    said = f"{counted(served.replays, 'replay')}{modes}, {served.eager_calls} without a capture"
    parts = [f"{served.warm_ups} to warm up"] if served.warm_ups else []
    parts += [f"{served.refused} because an input had moved or a value changed"] if served.refused else []
    return f"{said} ({', '.join(parts)})" if parts else said


def _compared(source: Source, served: ServedSize) -> str:
    if served.check == "not-checked":
        reasons = (c.reason for c in source.run.comparisons if c.graph == served.graph and c.reason)
        why = next(reasons, "compdbg run --compare eager does it")
        return f"not compared with eager: {why}"
    mark = _CHECK.get(served.check, ("·", ""))[0]
    worst = f" (largest difference {served.max_abs:.3g})" if served.max_abs is not None else ""
    return f"{mark} {served.check} to eager{worst}" if served.check == "equal" else f"{mark} differs{worst}"


def _captured(served: ServedSize) -> str:
    if served.fault:
        return f"none: {served.fault}"
    if not served.captures:
        return "none of its own"
    took = f" in {served.capture_ms:.1f} ms" if served.capture_ms is not None else ""
    room = f", {size(served.capture_bytes)}" if served.capture_bytes else ""
    held = f" ({captures_said(served)})" if served.captures_by_mode else ""
    return f"{counted(served.captures, 'capture')}{held}{took}{room}"


def _failed(source: Source, served: ServedSize) -> list[Capture]:
    """Captures of this size that failed, or of the size that it is padded to."""
    wanted = {served.size, served.padded_to}
    found = [e for _, e in source.run.log.of(Capture) if e.graph == served.graph and e.size in wanted]
    return [e for e in found if e.error is not None]


def _failure(source: Source, served: ServedSize) -> tuple[Where | None, list[str]]:
    for capture in _failed(source, served):
        where = capture.where or (capture.stack[-1] if capture.stack else None)
        return where, [f"{place(w)}  {w.function}" for w in capture.stack]
    return None, []


def _failures(source: Source, served: ServedSize) -> list[Block]:
    blocks: list[Block] = []
    for capture in _failed(source, served)[:3]:
        blocks += facts(
            (
                "failed",
                f"{capture.piece or 'the whole graph'} at size {capture.size}: {capture.error}",
                "bad",
            ),
            ("kind", capture.fault),
            ("op", capture.op),
            ("thread", capture.thread),
        )
    return blocks


def _replay_troubles(source: Source, served: ServedSize) -> list[Block]:
    log, blocks = source.run.log, list[Block]()
    mine = {served.size, served.padded_to}
    for _, moved in log.of(AddressChanged):
        if moved.graph == served.graph and moved.size in mine:
            text = f"{moved.argument} was at {moved.captured} when captured, then at {moved.seen}"
            blocks += facts(("moved", f"{text} ({counted(moved.calls, 'call')})", "bad"))
    for _, stale in log.of(StaleInput):
        if stale.graph == served.graph and stale.size in mine:
            blocks += facts(("stale", f"{stale.name} was {stale.captured}, then {stale.seen}", "bad"))
    for _, leak in log.of(PaddingLeak):
        if leak.graph == served.graph and leak.size == served.size:
            text = f"padding to {leak.padded_to} changed {leak.what}: {counted(leak.elements, 'element')}"
            text += f", through {leak.op} in {leak.piece}" if leak.op else ""
            blocks += facts(("leak", text, "bad"))
    last = [e for _, e in log.of(Dispatch) if e.graph == served.graph and e.size == served.size]
    return [*blocks, *facts(("", "no call of this size was dispatched" if not last else None, "dim"))]


def _sizes_of(finding: Finding) -> list[object]:
    sizes = finding.data.get("sizes")
    return [int(n) if str(n).isdecimal() else n for n in sizes] if isinstance(sizes, (list, dict)) else []


SIZES = Place(
    name="sizes",
    letter="s",
    title="Sizes",
    view=sizes_view,
    page=size_page,
    key=lambda s: f"{s.graph} {s.size}",
    row=ServedSize,
    about=lambda s, finding: s.size == finding.data.get("size") or s.size in _sizes_of(finding),
    number=lambda s: s.size,
)
