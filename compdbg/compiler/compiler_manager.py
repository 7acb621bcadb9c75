"""`CompilerManager`: has each family of pieces compiled once for each range, or takes it from the cache."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import msgspec

from compdbg import probe
from compdbg.compiler import kernels
from compdbg.compiler.cache_entry import digest, key_of
from compdbg.compiler.cache_factors import (
    config_factors,
    environment_factors,
    machine_factors,
    operator_factors,
    state_factors,
    torch_config_factors,
)
from compdbg.compiler.caching import Place
from compdbg.compiler.compiler_interface import CompilerInterface, Runnable, make_compiler
from compdbg.compiler.config import CompilationConfig
from compdbg.compiler.dump import dump_of
from compdbg.compiler.partitions import Statics, capturing_parts
from compdbg.compiler.passes.inductor_pass import get_pass_context, pass_context
from compdbg.compiler.passes.pass_manager import PostGradPassManager
from compdbg.compiler.piece_cache import PieceCache
from compdbg.compiler.piece_guards import added_guards, holds_at
from compdbg.compiler.piece_options import inductor_options, options_said
from compdbg.compiler.pieces import Piece, symbols_of
from compdbg.compiler.piecewise_backend import Compiled
from compdbg.compiler.ranges import Range
from compdbg.compiler.refake import Ready, made_ready
from compdbg.compiler.traced_sizes import TracedSizes
from compdbg.compiler.twins import Family, assumptions, holds, lift
from compdbg.compiler.work_record import recording
from compdbg.events import PieceCompiled

_PIECE_CONFIG = (
    "backend",
    "use_inductor_graph_partition",
    "use_standalone_compile",
    "dynamic_shapes_config.",
    "inductor_compile_config",
    "tune_single_sizes",
)
"""What of the configuration decides how one piece is compiled; the rest only decides which pieces."""


class CompilerManager:
    """The compiler of one graph's pieces."""

    def __init__(self, graph: str, config: CompilationConfig, what: str) -> None:
        self.graph = graph
        self.what = what
        self.config = config
        self.compiler: CompilerInterface = make_compiler(config)
        self.pass_manager = PostGradPassManager()
        self.pass_manager.configure(config)
        self.statics = Statics()
        self.cache = PieceCache(graph, config, self.compiler, self.statics)
        self.compiler.keeps = not self.cache.disk.disabled
        self._factors: dict[str, str] | None = None

    def compile(self, family: Family, traced: TracedSizes, compile_range: Range) -> Compiled:
        """The family's version for one range: of this process, from disk, or compiled now."""
        started = time.perf_counter()
        name = f"{self.graph} {family.head.name} {compile_range}"
        factors = self._factors_of(family, traced, compile_range)
        dump = dump_of(self.config, self.graph).at(family.head.name, str(compile_range))
        context = pass_context(compile_range, key_of(factors), dump, family.head.weights)
        with probe.compiling_graph(name), context:
            place = Place(name, str(compile_range), family.head.name)
            compiled = self.cache.find(factors, place, family)
            reused = compiled is not None
            if compiled is None:
                compiled = self._fresh(family, traced, compile_range, factors)
        self.cache.remember(compiled)
        if self._is_wrong_for_first_call(compiled, traced, compile_range):
            return self.compile(family, msgspec.structs.replace(traced, prefer_first=True), compile_range)
        self._report(family.head, compile_range, started, reused=reused)
        return compiled

    def _is_wrong_for_first_call(self, compiled: Compiled, traced: TracedSizes, compile_range: Range) -> bool:
        """Whether the compile assumed something that is not so for the size that was traced."""
        first = traced.first_batch
        if first is None or first not in compile_range or traced.prefer_first:
            return False
        return not holds_at(compiled.guards, first)

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
            runnable = self._compile(ready, piece.name, compile_range)
        assumed = assumptions(ready)
        members = {family.constants_of(i) for i in range(len(family.members))}
        good_for = tuple(sorted(c for c in members if holds(assumed, ready, c))) if assumed else None
        compiled = Compiled(
            key=key_of(factors),
            runnable=runnable,
            good_for=good_for,
            guards=added_guards(ready, symbols_of(piece), traced, compile_range),
            saved=self._save(runnable),
            libraries=keeper.libraries(),
            record=recorded.finish(),
        )
        readable = {"computation_graph.py": piece.module.graph.python_code("self").src}
        if recorded.code:
            readable["inductor_code.py"] = recorded.code
        get_pass_context().dump.write(readable)
        self.cache.store(compiled, factors, family, readable)
        return compiled

    def _compile(self, ready: Ready, piece: str, compile_range: Range) -> Runnable:
        try:
            with capturing_parts(self.graph, self.config, self.statics):
                return self.compiler.compile(ready.module, ready.inputs, self._options(compile_range))
        except Exception as error:
            what = f"{piece} of {self.graph} for {compile_range}"
            error.add_note(f"compdbg.compiler: while {self.compiler.name} compiled {what}")
            raise

    def _save(self, runnable: Runnable) -> bytes | None:
        if self.cache.disk.disabled:
            return None
        try:
            return self.compiler.save(runnable)
        except Exception as error:
            self.cache.disk.problem(f"a piece can't be kept: {type(error).__name__}: {error}")
            return None

    def _options(self, compile_range: Range) -> dict[str, Any]:
        if not self.compiler.uses_inductor:
            return {}
        options = inductor_options(self.config, compile_range)
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
                options=options_said(self.config, compile_range) if self.compiler.uses_inductor else {},
            )
        )
