"""The cache on disk: `models` holds whole models as loaded on a warm start, `pieces` their pieces.

    <root>/<layer>/<key>/rank_<r>/entry      one file, see `cache_entry`
                                 /*.py, *.json   the same for people: graph, code, factors

An entry is looked up by a key over factors that are written beside it in the clear. A folder that
can't be written to is said once, and the compiler works on without.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import time
from pathlib import Path
from typing import Any

import msgspec
import torch

from compdbg import probe
from compdbg.compiler.cache_entry import (
    Entry,
    Unusable,
    from_bytes,
    key_of,
    read_about,
    remove_leftovers,
    to_bytes,
    write_atomically,
)
from compdbg.compiler.config import CompilationConfig
from compdbg.events import CacheLookup, CacheProblem
from compdbg.events.caches import FactorChange

log = logging.getLogger("compdbg.compiler")
ENTRY = "entry"
_MAX_COMPARED = 64
_SHOWN = 200
ORDER = "order of passes"
"""The factor that names all passes as they run."""


class Cache:
    """One layer of the cache. `layer` is its folder; `called` is what events call it."""

    def __init__(self, config: CompilationConfig, layer: str, called: str) -> None:
        self.layer = layer
        self.called = called
        self.disabled = why_disabled(config)
        self.root = cache_root(config) / layer
        self._writable = True

    def folder(self, key: str) -> Path:
        return self.root / key / f"rank_{rank()}"

    def look_up(self, factors: dict[str, str], place: Place, name: str = ENTRY) -> Entry | None:
        """The entry for these factors; a miss, and why, is an event. A hit is for the caller to say."""
        key = key_of(factors)
        if self.disabled:
            self.say(key, place, "disabled", reason=self.disabled)
            return None
        path = self.folder(key) / name
        try:
            data = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            self.say_miss(key, factors, place)
            return None
        except OSError as error:
            self.problem(f"can't be read: {error.strerror}", path)
            return None
        try:
            return from_bytes(data, key)
        except Unusable as unusable:
            self.reject(key, place, unusable.result, str(unusable), path)
            return None

    def hit(self, entry: Entry, place: Place, started: float) -> None:
        """Say that an entry was loaded."""
        size = sum(map(len, entry.sections.values()))
        elapsed = (time.perf_counter() - started) * 1e3
        self.say(entry.key, place, "hit", bytes=size, duration_ms=elapsed)

    def reject(self, key: str, place: Place, result: str, reason: str, path: Path | None = None) -> None:
        """Say that an entry was found and is not used."""
        self.warn(place, result, reason, path)
        self.say(key, place, result, reason=reason)

    def warn(self, place: Place, result: str, reason: str, path: Path | None = None) -> None:
        log.warning(
            "%s: a cache entry is %s (%s): compiled anew; %s", place.graph, result, reason, path or ""
        )

    def store(self, entry: Entry, readable: dict[str, str], name: str = ENTRY) -> None:
        """Write an entry and its readable copies; a failure is said, and nothing else happens."""
        if self.disabled or not self._writable:
            return
        folder = self.folder(entry.key)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            remove_leftovers(folder)
            entry = msgspec.structs.replace(entry, run=probe.run_name())
            write_atomically(folder / name, to_bytes(entry))
            copies = {"factors.json": json.dumps(entry.factors, indent=1), **readable}
            for file, text in copies.items():
                write_atomically(folder / file, text.encode("utf-8", "surrogateescape"))
        except OSError as error:
            self._writable = False
            self.problem(f"can't be written to: {error.strerror}; compiling without a cache", folder)

    def problem(self, reason: str, path: Path | None = None) -> None:
        """Say, once an occasion, that the cache can't be used as it is."""
        path = path or self.root
        log.warning("the compile cache %s %s", path, reason)
        probe.emit(CacheProblem(layer=self.called, reason=reason, path=str(path)))

    def say_miss(self, key: str, factors: dict[str, str], place: Place) -> None:
        """Say that there is no entry, and in which factors the nearest one differs."""
        if not probe.active():
            return
        text = "\n".join(f"{name}: {value}" for name, value in sorted(factors.items()))
        stored = probe.payload(text)
        nearest = self._nearest(factors)
        if nearest is None:
            self.say(key, place, "miss", reason="no entry like it", factors=stored)
            return
        changed = differences(nearest.factors, factors)
        self.say(
            key,
            place,
            "miss",
            reason="changed: " + ", ".join(change.name for change in changed),
            factors=stored,
            nearest_key=nearest.key,
            nearest_made=nearest.made,
            nearest_run=nearest.run,
            changed_factors=changed,
        )

    def _nearest(self, factors: dict[str, str]) -> Entry | None:
        """The entry for the same thing, of the newest ones, whose factors differ least."""
        found = []
        with contextlib.suppress(OSError):
            paths = sorted(self.root.glob(f"*/rank_*/{ENTRY}*"), key=_time_of, reverse=True)
            found = [known for path in paths[:_MAX_COMPARED] if (known := read_about(path)) is not None]
        alike = [known for known in found if known.factors.get("what") == factors.get("what")]
        return min(alike, key=lambda known: len(differences(known.factors, factors)), default=None)

    def say(self, key: str, place: Place, result: str, **more: Any) -> None:
        """One look-up as an event."""
        probe.emit(
            CacheLookup(
                layer=self.called,
                result=result,
                key=key,
                graph=place.graph,
                range=place.range,
                place=place.function,
                **more,
            )
        )


class Place:
    """What is looked up, for events: the graph, the range, the function that is compiled."""

    def __init__(self, graph: str, range: str | None = None, function: str = "") -> None:
        self.graph = graph
        self.range = range
        self.function = function


def cache_root(config: CompilationConfig) -> Path:
    """The folder of the cache: as configured, else below the user's cache folder."""
    if config.cache_dir:
        return Path(config.cache_dir).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "compdbg" / "compile_cache"


def why_disabled(config: CompilationConfig) -> str:
    """Why the cache is not used, or nothing."""
    if config.disable_cache:
        return "disable_cache is set (COMPDBG_DISABLE_COMPILE_CACHE)"
    inductor = getattr(torch, "_inductor", None)
    forced = config.inductor_compile_config.get("force_disable_caches")
    if forced or getattr(getattr(inductor, "config", None), "force_disable_caches", False):
        return "torch._inductor.config.force_disable_caches is set"
    return ""


def rank() -> int:
    """This process's rank: entries of different ranks are kept apart."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return int(torch.distributed.get_rank())
    value = os.environ.get("RANK", "")
    return int(value) if value.isdecimal() else 0


def differences(before: dict[str, str], now: dict[str, str]) -> list[FactorChange]:
    """The factors that are not the same, by name."""
    return [
        FactorChange(name=name, before=_short(before.get(name)), after=_short(now.get(name)))
        for name in sorted(before.keys() | now.keys())
        if before.get(name) != now.get(name) and not (name == ORDER and _is_told_by_name(before, now))
    ]


def _is_told_by_name(before: dict[str, str], now: dict[str, str]) -> bool:
    """Whether passes have come or gone, and those that stayed are in the order that they had."""
    a, b = (factors.get(ORDER, "").split(", ") for factors in (before, now))
    return set(a) != set(b) and [name for name in a if name in b] == [name for name in b if name in a]


def _time_of(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _short(value: Any) -> str:
    text = "not there" if value is None else str(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
