"""One look into a cache as an event: what was asked, what came of it, and on a miss why."""

from __future__ import annotations

import copy
import hashlib
import os
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

from compdbg import probe
from compdbg.events import CachedWork, CacheLookup, CacheProblem, CacheRemade, StaleArtifact
from compdbg.hooks import artifacts, cachekeys, compiling
from compdbg.hooks.current import compile_id
from compdbg.hooks.makings import Making, changes
from compdbg.record.options import current

PENDING = 64
_pending: dict[tuple[str, str], tuple[str, cachekeys.KeyRecord, cachekeys.KeyRecord | None]] = {}
"""Layer and key of a miss -> the graph, what is to be kept of it, and the nearest earlier key."""
_stored: dict[str, tuple[cachekeys.KeyRecord, cachekeys.KeyRecord | None]] = {}
"""Graph -> what was kept of it, until its code is known."""
_frames: dict[str, str] = {}
"""Where the frame of a compile is, by compile id: a backward is compiled when the frame is gone."""
_PLAIN = (bool, int, float, str, type(None))
_CODE = ("gm", "fx_graph", "user_defined_triton_source", "triton_kernel_source_codes")


class Found(NamedTuple):
    """A look into one layer: key, components (`readable`), the graph's name, time taken."""

    layer: str
    key: str | None
    lines: list[str]
    graph: str
    duration_ms: float
    makings: dict[str, Making] | None = None
    """What the graph is made of now and the key does not hold."""


def components(pickler: Any, details: Any) -> list[str]:
    """The lines that torch's own `debug_lines` gives, with our hashes where a text says it all.

    torch pickles each of hundreds of settings and inputs by itself; plain values and descriptions
    of tensors need not be.
    """
    rest = copy.copy(details)
    lines = []
    for name, value in list(vars(details).items()):
        items = value.items() if isinstance(value, dict) else enumerate(value) if _is_list(value) else ()
        said = {key: text for key, item in items if (text := _said(item)) is not None}
        if said and (isinstance(value, dict) or len(said) == len(value)):
            lines += [f"[{_hash(text)}] {name}[{key}]: {text}" for key, text in said.items()]
            left = {k: v for k, v in value.items() if k not in said} if isinstance(value, dict) else []
            setattr(rest, name, left)
    return [*pickler.debug_lines(rest), *lines]


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _said(value: Any) -> str | None:
    """A text that is equal only for equal values; None where there is none."""
    if type(value) in _PLAIN:
        return str(value)
    if type(value).__name__ in ("Tensor", "Parameter", "FakeTensor"):
        cache = sys.modules["torch._inductor.codecache"]
        return str(cache.extract_tensor_metadata_for_cache_key(value))
    return None


def _hash(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def describe(found: Found, result: str, reason: str = "", **more: Any) -> CacheLookup:
    return CacheLookup(
        layer=found.layer,
        result=result,
        key=found.key,
        graph=found.graph,
        compile_id=compile_id(),
        reason=cachekeys.redacted(reason),
        duration_ms=found.duration_ms,
        factors=probe.payload("\n".join(found.lines)) if found.lines else None,
        place=_place(found.graph),
        **more,
    )


def record_hit(found: Found, size: int | None = None) -> None:
    """A hit; and what an earlier run saw when the artifact was made."""
    probe.emit(describe(found, "hit", bytes=size or None))
    if found.key is None:
        return
    place = _place(found.graph)
    known = cachekeys.recall(found.layer, place, found.key)
    if known is None:
        if found.lines:  # of what it was made is not known
            cachekeys.remember(_record(found._replace(makings=None), place))
        return
    _tell_stale(found, known)
    work = artifacts.decode(known.work) if known.work else None
    if work is not None:
        event = CachedWork(
            layer=found.layer,
            key=found.key,
            graph=found.graph,
            run=known.run,
            made=known.made,
            passes=work.passes,
            patterns=work.patterns,
            copies=work.copies,
            lost=work.lost,
            dropped=work.dropped,
            compile_id=compile_id(),
        )
        probe.emit(event)


def _tell_stale(found: Found, known: cachekeys.KeyRecord) -> None:
    """Say what the artifact was made of that is another thing now."""
    changed = changes(known.makings, found.makings or {})
    if changed and found.makings:
        event = StaleArtifact(
            layer=found.layer,
            key=known.key,
            graph=found.graph,
            run=known.run,
            made=known.made,
            changes=changed,
            where=found.makings[changed[0].name].where,
            compile_id=compile_id(),
        )
        probe.emit(event)


def finish_miss(found: Found, info: Mapping[str, Any], files: list[tuple[str, int]]) -> None:
    """A miss: no entry, one whose shape guard is false, or one that can't be read."""
    if found.key is None:
        probe.emit(describe(found, "miss"))
        return
    if files and info.get("cache_status_detailed", "full_miss") == "full_miss":
        path = cachekeys.redacted(os.path.dirname(files[0][0]))
        probe.emit(CacheProblem(layer=found.layer, reason="a corrupt entry: it can't be read", path=path))
        probe.emit(describe(found, "corrupt", "the entry can't be read; it is made again"))
        return
    place = _place(found.graph)
    record = _record(found, place)
    near = cachekeys.nearest(found.layer, place, found.key, record.factors, record.folder)
    known = {} if near is None else cachekeys.told(near, record.folder)
    probe.emit(describe(found, "miss", _why(info, near, record), **known))
    _pending[(found.layer, found.key)] = (found.graph, record, None if near is None else near.record)
    while len(_pending) > PENDING:
        _pending.pop(next(iter(_pending)))


def remember_stored(layer: str, key: str) -> None:
    """torch has stored the artifact of a miss: keep its key, and how it was made."""
    graph, record, near = _pending.pop((layer, key), ("", None, None))
    if record is None:
        return
    if layer == "fx":
        record = cachekeys.with_work(record, artifacts.take(graph))
        _stored[graph] = (record, near)
        while len(_stored) > PENDING:
            _stored.pop(next(iter(_stored)))
    cachekeys.remember(record)


def remember_output(graph: str, output: Any) -> None:
    """The code of a graph that was stored: kept as a digest, and compared with the nearest key's."""
    record, near = _stored.pop(graph, (None, None))
    code = getattr(output, "source_code", None)
    if record is None or not isinstance(code, str) or not code:
        return
    record = cachekeys.with_output(record, code)
    cachekeys.remember(record)
    if near is not None and near.key != record.key and near.output == record.output:
        probe.emit(
            CacheRemade(
                layer=record.layer,
                key=record.key,
                nearest_key=near.key,
                graph=graph,
                compile_id=compile_id(),
            )
        )


def _why(info: Mapping[str, Any], near: cachekeys.Nearest | None, now: cachekeys.KeyRecord) -> str:
    if info.get("cache_status_detailed") == "guard_miss":
        return (
            f"an entry with this key exists, but not for these sizes: {info.get('cache_status_guard_expr')}"
        )
    if info.get("cache_status_detailed") == "hit":
        return "its entry needs one of the FX-graph cache that is gone or can't be read"
    if near is None:
        return "no earlier key of this function is known"
    if near.changes:
        names = ", ".join(change.name for change in near.changes[:4])
        return f"differs from the nearest earlier key in {names}"
    if near.record.folder and near.record.folder != now.folder:
        return f"this key was stored in {near.record.folder}; torch looks in {now.folder} now"
    return "an earlier run stored this key; its entry is gone from torch's cache folder"


def _record(found: Found, place: str) -> cachekeys.KeyRecord:
    assert found.key is not None
    factors = cachekeys.factors_of(found.lines)
    makings = {name: (making.digest, making.text) for name, making in (found.makings or {}).items()}
    return cachekeys.new_record(found.layer, place, found.key, factors, _run_name(), _cache_folder(), makings)


def readable(lines: list[str]) -> list[str]:
    """Components without anyone's home path, and without code where none is to be recorded."""
    lines = [_digest_as_digits(line) if "\ufffd" in line else line for line in lines]
    shown = cachekeys.redacted("\0".join(lines)).split("\0") if lines else []
    return shown if current().source else [_without_code(line) for line in shown]


def _digest_as_digits(line: str) -> str:
    """torch shows bytes as text; the digest of them that it puts before it says as much."""
    head, _, _ = line.partition(": ")
    return f"{head}: {head[1:].partition(']')[0]}"


def _without_code(line: str) -> str:
    head, _, _ = line.partition(": ")
    return head if head.partition("] ")[2].partition("[")[0] in _CODE else line


def _place(graph: str) -> str:
    """`model.py:forward`, with the graph's stage: equal over runs, machines and compile ids."""
    identifier = compile_id() or ""
    under_way = compiling.top()
    if under_way is not None:
        file, _, function = under_way.frame.rpartition(":")
        _frames[identifier] = f"{os.path.basename(file.rpartition(':')[0])}:{function}"
        while len(_frames) > PENDING:
            _frames.pop(next(iter(_frames)))
    return f"{_frames.get(identifier, '')} {graph.removeprefix(identifier).strip()}".strip()


def _run_name() -> str:
    lines = getattr(probe.sink(), "lines", None)
    return os.path.basename(str(getattr(lines, "folder", "")))


def _cache_folder() -> str:
    runtime = sys.modules.get("torch._inductor.runtime.cache_dir_utils")
    cache_dir = getattr(runtime, "cache_dir", None)
    return cachekeys.redacted(str(cache_dir())) if cache_dir is not None else ""
