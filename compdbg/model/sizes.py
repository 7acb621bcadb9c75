"""The sizes that a serving engine was called with: how each was compiled, padded, captured and served."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from msgspec import Struct, structs

from compdbg.events import Capture, Compared, Dispatch, PieceCompiled
from compdbg.model.pipeline import is_tuned
from compdbg.store.reader import Log


class ServedSize(Struct, frozen=True, kw_only=True):
    """How calls of one size were served. Times in milliseconds; `check` compares with eager.

    `warm_ups` of the `eager_calls` came before the capture, which needs them; `refused` found an
    input that had moved or a value that had changed since. `fault` is why a size has no capture.
    """

    graph: str
    size: int
    compiled_as: str | None
    padded_to: int | None
    captured: bool
    captures: int
    captures_by_mode: dict[str, int] = {}
    """`FULL`: of the whole graph; `PIECEWISE`: of a compiled piece, one each."""
    replays: int
    replays_by_mode: dict[str, int] = {}
    """The same of calls that were replays; empty where it was not recorded."""
    eager_calls: int
    capture_ms: float | None
    capture_bytes: int | None
    check: str
    max_abs: float | None
    max_rel: float | None
    warm_ups: int
    refused: int
    fault: str | None
    uncaptured: dict[str, int]
    """Why calls that were no warm-ups ran without a capture, with their number; see `Dispatch`."""
    why: str
    """Why rows can't be added, where they can't."""
    largest: int | None
    """The largest size that is to be captured."""
    events: list[str]
    tuned: bool | None = None
    """Whether kernels of what it runs as were chosen by timing; None where that was not recorded."""
    padding_checks: int | None = None
    """Replays that were checked for rows of padding that leak; None where that was not asked for."""


def build_sizes(log: Log) -> list[ServedSize]:
    """One row a graph and size: the last tally of each process, added up; captures beside it."""
    last: dict[tuple[str, str, int], Dispatch] = {}
    events: dict[tuple[str, int], dict[str, str]] = defaultdict(dict)
    for header, event in log.of(Dispatch):
        last[header.process, event.graph, event.size] = event
        events[event.graph, event.size][header.process] = header.id
    captured: dict[tuple[str, int], list[Capture]] = defaultdict(list)
    for _, capture in log.of(Capture):
        if capture.size:
            captured[capture.graph, capture.size].append(capture)
    compared: dict[tuple[str, int], list[Compared]] = defaultdict(list)
    for _, comparison in log.of(Compared):
        if comparison.size is not None and comparison.check != "not-checked":
            compared[comparison.graph, comparison.size].append(comparison)
    called: dict[tuple[str, int], list[Dispatch]] = defaultdict(list)
    for dispatch in last.values():
        called[dispatch.graph, dispatch.size].append(dispatch)
    keys = sorted({*called, *captured}, key=lambda k: (k[0], k[1]))
    rows = [
        _size(*key, called[key], captured[key], compared[key], list(events.get(key, {}).values()))
        for key in keys
    ]
    tuned = _tuned(log)
    return [structs.replace(row, tuned=tuned.get((row.graph, row.compiled_as))) for row in rows]


def _tuned(log: Log) -> dict[tuple[str, str | None], bool]:
    """Graph and range -> whether any piece of it was tuned for that."""
    found: dict[tuple[str, str | None], bool] = {}
    for _, event in log.of(PieceCompiled):
        if event.options is not None:
            key = (event.graph, event.range)
            found[key] = found.get(key, False) or is_tuned(event.options)
    return found


def _size(
    graph: str,
    size: int,
    calls: list[Dispatch],
    captures: list[Capture],
    compared: list[Compared],
    events: list[str],
) -> ServedSize:
    done = [c for c in captures if c.error is None]
    padded_to = next((c.padded_to for c in calls if c.padded_to), None)
    elsewhere = padded_to not in (None, size)
    wrong = [c for c in compared if c.check == "differs"]
    checks = [c.padding_checks for c in calls if c.padding_checks is not None]
    measured = [c.bytes for c in done if c.bytes is not None]
    return ServedSize(
        graph=graph,
        size=size,
        compiled_as=next((c.compiled_as for c in calls if c.compiled_as), None),
        padded_to=padded_to,
        captured=bool(done) or any(c.captures or c.replays for c in calls),
        captures=len(done) if done or elsewhere else sum(c.captures for c in calls),
        captures_by_mode=dict(Counter(map(_mode, done))),
        replays=sum(c.replays for c in calls),
        replays_by_mode=_added_up(c.replays_by_mode for c in calls),
        eager_calls=sum(c.eager_calls for c in calls),
        capture_ms=sum(c.duration_ms for c in done) if done else None,
        capture_bytes=sum(measured) if measured else None,
        check="differs" if wrong else "equal" if compared else "not-checked",
        max_abs=max((c.max_abs for c in wrong if c.max_abs is not None), default=None),
        max_rel=max((c.max_rel for c in wrong if c.max_rel is not None), default=None),
        warm_ups=sum(c.warm_ups for c in calls),
        refused=sum(c.refused for c in calls),
        fault=next((c.fault or c.error for c in captures if c.error is not None), None),
        uncaptured=_added_up(c.uncaptured for c in calls),
        why=next((c.why for c in calls if c.why), ""),
        largest=max((c.largest for c in calls if c.largest is not None), default=None),
        events=events,
        padding_checks=sum(checks) if checks else None,
    )


def _mode(capture: Capture) -> str:
    """What a capture holds; an engine that names no mode names the piece, or `full`."""
    return capture.mode or ("FULL" if capture.piece in ("", "full") else "PIECEWISE")


def _added_up(counts: Iterable[dict[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return dict(total)
