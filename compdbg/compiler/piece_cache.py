"""Where a version of a piece is found again: in this process, or on disk."""

from __future__ import annotations

import time
import weakref
from collections.abc import Mapping

import msgspec

from compdbg import probe
from compdbg.compiler import kernels
from compdbg.compiler.cache_entry import Entry, key_of
from compdbg.compiler.caching import Cache, Place
from compdbg.compiler.compiler_interface import CompilerInterface
from compdbg.compiler.config import CompilationConfig
from compdbg.compiler.partitions import Statics, capturing_parts
from compdbg.compiler.piece_guards import SizeGuard
from compdbg.compiler.piecewise_backend import Compiled
from compdbg.compiler.twins import Family
from compdbg.compiler.work_record import WorkRecord
from compdbg.events import CacheLookup

_in_process: weakref.WeakValueDictionary[str, Compiled] = weakref.WeakValueDictionary()


def forget() -> None:
    """Compile anew what this process has compiled: for tests, and after a change that no factor tells."""
    _in_process.clear()


class PieceCache:
    """The versions of one graph's pieces."""

    def __init__(
        self, graph: str, config: CompilationConfig, compiler: CompilerInterface, statics: Statics
    ) -> None:
        self.disk = Cache(config, "pieces", "ours")
        self._graph = graph
        self._config = config
        self._compiler = compiler
        self._statics = statics

    def find(self, factors: dict[str, str], place: Place, family: Family) -> Compiled | None:
        """The version for these factors, if there is one; what was found instead is an event."""
        return self._known(factors, place) or self._loaded(factors, place, family)

    def remember(self, compiled: Compiled) -> None:
        """Find it again in this process, for as long as something uses it."""
        _in_process[compiled.key] = compiled

    def _known(self, factors: dict[str, str], place: Place) -> Compiled | None:
        if self._config.use_inductor_graph_partition:
            return None  # its parts hold captures of one model
        known = _in_process.get(key_of(factors))
        if known is not None:
            reason = "an equal piece was compiled before in this process"
            probe.emit(
                CacheLookup(
                    layer="twin",
                    result="hit",
                    key=known.key,
                    graph=place.graph,
                    range=place.range,
                    reason=reason,
                )
            )
        return known

    def _loaded(self, factors: dict[str, str], place: Place, family: Family) -> Compiled | None:
        if not family.stable:
            return None
        started = time.perf_counter()
        entry = self.disk.look_up(factors, place)
        if entry is None:
            return None
        good_for = entry.about.get("good_for")
        allowed = None if good_for is None else tuple(tuple(values) for values in good_for)
        if allowed is not None and family.constants_of(0) not in allowed:
            reason = f"compiled for twins with the constants {good_for}"
            self.disk.reject(entry.key, place, "miss", reason)
            return None
        try:
            libraries = msgspec.msgpack.decode(entry.sections["libraries"], type=dict[str, bytes])
            guards = msgspec.convert(entry.about["guards"], tuple[SizeGuard, ...])
            record = msgspec.convert(entry.about["record"], WorkRecord)
            with kernels.giving(libraries), capturing_parts(self._graph, self._config, self._statics):
                runnable = self._compiler.load(entry.sections["artifact"])
        except Exception as error:
            self.disk.reject(entry.key, place, "stale", f"loading failed: {type(error).__name__}: {error}")
            return None
        self.disk.hit(entry, place, started)
        record.emit("ours", entry.key, place.graph, entry.made)
        return Compiled(
            key=key_of(factors),
            runnable=runnable,
            good_for=allowed,
            guards=guards,
            saved=entry.sections["artifact"],
            libraries=libraries,
            record=record,
        )

    def store(
        self, compiled: Compiled, factors: dict[str, str], family: Family, readable: Mapping[str, str]
    ) -> None:
        """Keep a version that was compiled just now, if it can be kept."""
        if compiled.saved is None or not family.stable:
            return
        entry = Entry(
            key=key_of(factors),
            factors=factors,
            about={
                "good_for": compiled.good_for,
                "guards": msgspec.to_builtins(compiled.guards),
                "record": msgspec.to_builtins(compiled.record),
            },
            sections={
                "artifact": compiled.saved,
                "libraries": msgspec.msgpack.encode(compiled.libraries),
            },
        )
        about = {"piece.txt": family.text(), "record.json": msgspec.json.encode(compiled.record).decode()}
        self.disk.store(entry, {**about, **readable})
