"""The looks into caches: what was asked, what came of it, and why."""

from __future__ import annotations

import itertools
import re
from datetime import UTC, datetime

from msgspec import Struct

from compdbg.events import CacheLookup, CacheProblem, CacheRemade, FactorChange, Header
from compdbg.store.reader import Log

_CUSTOM_OP = re.compile(r"torch\.ops\.(\w+)\.(\w+)")
_OF_TORCH = (
    "aten", "prims", "prim", "higher_order", "inductor", "_c10d_functional", "c10d_functional", "quantized",
    "quantized_decomposed", "mkldnn", "mkl", "onednn", "rngprims", "profiler", "debugprims", "symm_mem",
    "_inductor_test", "fsdp", "torchvision",
)  # fmt: skip


class Lookup(Struct, frozen=True, kw_only=True):
    """One look into one layer: `aot`, `fx`, `ours`, `vllm`, `twin`."""

    piece: str | None
    """The graph, or piece of one, that was asked for."""
    range: str | None
    layer: str
    result: str
    key: str | None
    factors: str | None
    """The text of the run that holds the key's components, one a line."""
    changed_factors: list[FactorChange] | None
    nearest_key: str | None
    reason: str
    bytes: int | None
    duration_ms: float
    compile_id: str | None
    place: str
    nearest_made: float | None
    nearest_run: str
    nearest_folder: str
    process: str
    rank: int | None
    event: str
    served_by: str | None
    """The layer whose entry was used for this piece in the end; None where it was compiled."""
    not_in_key: list[str]
    """Custom ops of the graph: their kernels and fakes are in no key of torch's."""
    remade: bool
    """The code made after the miss is that of the nearest key: what changed does not matter."""


class Problem(Struct, frozen=True, kw_only=True):
    """A cache that can't be used as it is, and where."""

    layer: str
    reason: str
    path: str
    process: str
    event: str


def build_lookups(log: Log) -> list[Lookup]:
    served = _served(log)
    remade = {(h.process, e.layer, e.key) for h, e in log.of(CacheRemade)}
    return [
        Lookup(
            piece=event.graph,
            range=event.range,
            layer=event.layer,
            result=event.result,
            key=event.key,
            factors=event.factors,
            changed_factors=event.changed_factors,
            nearest_key=event.nearest_key,
            reason=event.reason,
            bytes=event.bytes,
            duration_ms=round(event.duration_ms, 3),
            compile_id=event.compile_id,
            place=event.place,
            nearest_made=event.nearest_made,
            nearest_run=event.nearest_run,
            nearest_folder=event.nearest_folder,
            process=header.process,
            rank=header.rank,
            event=header.id,
            served_by=served.get(_compile(header, event)),
            not_in_key=_custom_ops(log, event),
            remade=(header.process, event.layer, event.key) in remade,
        )
        for header, event in log.of(CacheLookup)
    ]


def _compile(header: Header, event: CacheLookup) -> tuple[str, str | None, str]:
    """The AOT cache holds all graphs of one compile; other layers each piece and range for itself."""
    piece = "" if event.layer in ("aot", "fx") else f"{event.graph} {event.range}"
    return header.process, event.compile_id, piece


def _served(log: Log) -> dict[tuple[str, str | None, str], str]:
    """The outermost layer that had what was asked for: an AOT entry is made of FX entries."""
    hits: dict[tuple[str, str | None, str], str] = {}
    for header, event in log.of(CacheLookup):
        if event.result == "hit" and hits.get(_compile(header, event)) != "aot":
            hits[_compile(header, event)] = event.layer
    return hits


def _custom_ops(log: Log, event: CacheLookup) -> list[str]:
    """Of torch's own layers; ours and vLLM's keys hold the source of what was traced."""
    if event.layer not in ("aot", "fx") or event.factors is None:
        return []
    names = _CUSTOM_OP.findall(log.text(event.factors) or "")
    return sorted({f"{space}::{name}" for space, name in names if space not in _OF_TORCH})


def build_cache_problems(log: Log) -> list[Problem]:
    return [
        Problem(layer=e.layer, reason=e.reason, path=e.path, process=h.process, event=h.id)
        for h, e in log.of(CacheProblem)
    ]


GRAPH = "gm"
"""The component that is the graph itself."""
_TEXT = 60
_DIGEST = re.compile(r"\b[0-9a-f]{32,}\b")


def said(change: FactorChange) -> str:
    """What a component was and is; of a graph the first line that differs, of digests only that they do."""
    if change.name != GRAPH:
        if _DIGEST.fullmatch(change.before) and _DIGEST.fullmatch(change.after):
            return f"{change.name}: another than before"
        before, after = _from_where_they_differ(change.before, change.after)
        return f"{change.name}: {_short(before)} before, {_short(after)} now"
    if not change.before and not change.after:
        return "the graph, further down than is kept of it"
    return f"the graph: `{_short(change.before)}` before, `{_short(change.after)}` now"


def earlier(miss: Lookup) -> str:
    """Which run the nearest key is of, and where that stored it if not where was looked now."""
    run = (
        f"run {miss.nearest_run}"
        if miss.nearest_run
        else f"a run{_of(miss.nearest_made)} that was not recorded"
    )
    return f"{run} (of another cache folder, {miss.nearest_folder})" if miss.nearest_folder else run


def _of(made: float | None) -> str:
    return "" if made is None else datetime.fromtimestamp(made, UTC).strftime(" of %Y-%m-%d %H:%M UTC")


def _from_where_they_differ(before: str, after: str) -> tuple[str, str]:
    """Of long texts that begin alike, what is not alike and a little before it."""
    pairs = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False))
    alike = sum(1 for _ in pairs) - _TEXT // 3
    if max(len(before), len(after)) <= _TEXT or alike <= 0:
        return before, after
    return f"…{before[alike:].lstrip()}", f"…{after[alike:].lstrip()}"


def _short(text: str) -> str:
    flat = _DIGEST.sub(lambda digest: f"{digest[0][:8]}…", " ".join(text.split())) or "absent"
    return f"{flat[:_TEXT]}…" if len(flat) > _TEXT else flat


def is_cold(log: Log) -> bool | None:
    """Whether all that was compiled was compiled anew; None where no cache was asked.

    A twin is served from what this very process has compiled.
    """
    results = {event.result for _, event in log.of(CacheLookup) if event.layer != "twin"}
    if "hit" in results:
        return False
    return True if results & {"miss", "stale", "corrupt", "bypass"} else None
