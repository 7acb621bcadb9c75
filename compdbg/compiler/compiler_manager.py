"""`CompilerManager`: has each family of pieces compiled once for each range, or takes it from the cache."""

from __future__ import annotations

import pickle
import time
import weakref
from collections.abc import Mapping
from typing import Any

import msgspec

from compdbg import probe
from compdbg.compiler import kernels
from compdbg.compiler.cache_entry import Entry, digest, key_of
from compdbg.compiler.cache_factors import (
    config_factors,
    environment_factors,
    machine_factors,
    operator_factors,
    state_factors,
    torch_config_factors,
)
from compdbg.compiler.caching import Cache, Place
from compdbg.compiler.compiler_interface import CompilerInterface, Runnable, make_compiler
from compdbg.compiler.config import CompilationConfig
from compdbg.compiler.dump import dump_of
from compdbg.compiler.partitions import Statics, capturing_parts, partition_options
from compdbg.compiler.passes.inductor_pass import get_pass_context, pass_context
from compdbg.compiler.passes.pass_manager import PostGradPassManager
from compdbg.compiler.pieces import Piece, symbols_of
from compdbg.compiler.piecewise_backend import Compiled
from compdbg.compiler.ranges import Range
from compdbg.compiler.refake import Ready, made_ready
from compdbg.compiler.traced_sizes import TracedSizes
from compdbg.compiler.twins import Family, assumptions, holds, lift
from compdbg.compiler.work_record import WorkRecord, recording
from compdbg.events import CacheLookup, PieceCompiled

_PIECE_CONFIG = (
    "backend",
    "use_inductor_graph_partition",
    "use_standalone_compile",
    "dynamic_shapes_config.",
    "inductor_compile_config",
)
"""What of the configuration decides how one piece is compiled; the rest only decides which pieces."""


_in_process: weakref.WeakValueDictionary[str, Compiled] = weakref.WeakValueDictionary()


def forget() -> None:
    """Compile anew what this process has compiled: for tests, and after a change that no factor tells."""
    _in_process.clear()


class CompilerManager:
    """The compiler of one graph's pieces."""

    def __init__(self, graph: str, config: CompilationConfig, what: str) -> None:
        self.graph = graph
        self.what = what
        self.config = config
        self.compiler: CompilerInterface = make_compiler(config)
        self.pass_manager = PostGradPassManager()
        self.pass_manager.configure(config)
        self.cache = Cache(config, "pieces", "ours")
        self.compiler.keeps = not self.cache.disabled
        self.statics = Statics()
        self._factors: dict[str, str] | None = None

    def compile(self, family: Family, traced: TracedSizes, compile_range: Range) -> Compiled:
        """The family's version for one range: of this process, from disk, or compiled now."""
        started = time.perf_counter()
        name = f"{self.graph} {family.head.name} {compile_range}"
        factors = self._factors_of(family, traced, compile_range)
        dump = dump_of(self.config, self.graph).at(family.head.name, str(compile_range))
        with probe.compiling_graph(name), pass_context(compile_range, key_of(factors), dump):
            place = Place(name, str(compile_range), family.head.name)
            compiled = self._known(factors, place) or self._loaded(factors, place, family)
            reused = compiled is not None
            if compiled is None:
                compiled = self._fresh(family, traced, compile_range, factors)
        _in_process[compiled.key] = compiled
        self._report(family.head, compile_range, started, reused=reused)
        return compiled

    def reuse(self, piece: Piece, versions: Mapping[Range, Compiled]) -> None:
        """Say that a twin's versions serve this piece."""
        for each in versions:
            self._report(piece, each, time.perf_counter(), reused=True)

    def _factors_of(self, family: Family, traced: TracedSizes, compile_range: Range) -> dict[str, str]:
        if self._factors is None:
            config = config_factors(self.config)
            wanted = tuple(f"config {key}" for key in _PIECE_CONFIG)
            self._factors = {
                **machine_factors(),
                **environment_factors(),
                **state_factors(),
                **{key: value for key, value in config.items() if key.startswith(wanted)},
                **self.compiler.factors(),
            }
            if self.compiler.uses_inductor:
                self._factors |= {**torch_config_factors(), **self.pass_manager.identity()}
        return {
            **self._factors,
            **operator_factors([family.head.module]),
            "what": f"{family.head.name} {compile_range} of {self.what}",
            "piece": digest(family.text().encode()),
            "range": str(compile_range),
            "sizes": traced.text(symbols_of(family.head), compile_range),
        }

    def _known(self, factors: dict[str, str], place: Place) -> Compiled | None:
        if self.config.use_inductor_graph_partition:
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
        entry = self.cache.look_up(factors, place)
        if entry is None:
            return None
        good_for = entry.about.get("good_for")
        allowed = None if good_for is None else tuple(tuple(values) for values in good_for)
        if allowed is not None and family.constants_of(0) not in allowed:
            reason = f"compiled for twins with the constants {good_for}"
            self.cache.reject(entry.key, place, "miss", reason)
            return None
        libraries = pickle.loads(entry.sections["libraries"])
        try:
            with kernels.giving(libraries), capturing_parts(self.graph, self.config, self.statics):
                runnable = self.compiler.load(entry.sections["artifact"])
        except Exception as error:
            self.cache.reject(entry.key, place, "stale", f"loading failed: {type(error).__name__}: {error}")
            return None
        self.cache.hit(entry, place, started)
        record = msgspec.convert(entry.about["record"], WorkRecord)
        record.emit("ours", entry.key, place.graph, entry.made)
        return Compiled(
            key=key_of(factors),
            runnable=runnable,
            good_for=allowed,
            saved=entry.sections["artifact"],
            libraries=libraries,
            record=record,
        )

    def _fresh(
        self,
        family: Family,
        traced: TracedSizes,
        compile_range: Range,
        factors: dict[str, str],
    ) -> Compiled:
        piece, constants = lift(family.head, family.texts[0], family.lifted)
        shapes = self.config.dynamic_shapes_config.type
        ready = made_ready(piece.module, traced, compile_range, shapes, constants)
        inductor = self.compiler.uses_inductor
        with kernels.keeping() as keeper, recording(self.pass_manager, inductor=inductor) as recorded:
            runnable = self._compile(ready, f"{piece.name} of {self.graph} for {compile_range}")
        assumed = assumptions(ready)
        members = {family.constants_of(i) for i in range(len(family.members))}
        good_for = tuple(sorted(c for c in members if holds(assumed, ready, c))) if assumed else None
        compiled = Compiled(
            key=key_of(factors),
            runnable=runnable,
            good_for=good_for,
            saved=self._save(runnable),
            libraries=keeper.libraries(),
            record=recorded.finish(),
        )
        readable = {"computation_graph.py": piece.module.graph.python_code("self").src}
        if recorded.code:
            readable["inductor_code.py"] = recorded.code
        get_pass_context().dump.write(readable)
        if compiled.saved is not None and family.stable:
            self._store(compiled, factors, family, readable)
        return compiled

    def _compile(self, ready: Ready, what: str) -> Runnable:
        try:
            with capturing_parts(self.graph, self.config, self.statics):
                return self.compiler.compile(ready.module, ready.inputs, self._options())
        except Exception as error:
            error.add_note(f"compdbg.compiler: while {self.compiler.name} compiled {what}")
            raise

    def _save(self, runnable: Runnable) -> bytes | None:
        if self.cache.disabled:
            return None
        try:
            return self.compiler.save(runnable)
        except Exception as error:
            self.cache.problem(f"a piece can't be kept: {type(error).__name__}: {error}")
            return None

    def _store(
        self, compiled: Compiled, factors: dict[str, str], family: Family, readable: dict[str, str]
    ) -> None:
        entry = Entry(
            key=key_of(factors),
            factors=factors,
            about={"good_for": compiled.good_for, "record": msgspec.to_builtins(compiled.record)},
            sections={"artifact": compiled.saved or b"", "libraries": pickle.dumps(compiled.libraries)},
        )
        about = {"piece.txt": family.text(), "record.json": msgspec.json.encode(compiled.record).decode()}
        self.cache.store(entry, {**about, **readable})

    def _options(self) -> dict[str, Any]:
        if not self.compiler.uses_inductor:
            return {}
        options = {**partition_options(self.config), **self.config.inductor_compile_config}
        own = options.pop("post_grad_custom_post_pass", None)
        if own is not None and own not in self.pass_manager.passes:
            self.pass_manager.add(own)
        return {**options, "post_grad_custom_post_pass": self.pass_manager}

    def _report(self, piece: Piece, compile_range: Range, started: float, *, reused: bool) -> None:
        probe.emit(
            PieceCompiled(
                graph=self.graph,
                piece=piece.name,
                range=str(compile_range),
                duration_ms=(time.perf_counter() - started) * 1e3,
                reused=reused,
                backend=self.compiler.name,
            )
        )
