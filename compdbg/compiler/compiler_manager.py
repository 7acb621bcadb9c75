"""`CompilerManager`: has each family of pieces compiled once for each range, or takes it from the cache."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sympy
from msgspec import Struct

from compdbg import probe
from compdbg.compiler.compiler_interface import CompilerInterface, Runnable, make_compiler
from compdbg.compiler.config import CompilationConfig
from compdbg.compiler.passes.inductor_pass import pass_context
from compdbg.compiler.passes.pass_manager import PostGradPassManager
from compdbg.compiler.pieces import Piece
from compdbg.compiler.ranges import Range
from compdbg.compiler.refake import made_ready
from compdbg.compiler.twins import Family, assumptions, holds, lift
from compdbg.events import PieceCompiled


class Compiled(Struct, frozen=True):
    """One version of a piece. `holds_for` tells whether twins with other constants may use it."""

    runnable: Runnable
    holds_for: Callable[[Sequence[int]], bool]


class CompilerManager:
    """The compiler of one graph's pieces."""

    def __init__(self, graph: str, config: CompilationConfig) -> None:
        self.graph = graph
        self.config = config
        self.compiler: CompilerInterface = make_compiler(config)
        self.pass_manager = PostGradPassManager()
        self.pass_manager.configure(config)

    def compile(self, family: Family, batch: frozenset[sympy.Symbol], compile_range: Range) -> Compiled:
        """The family's version for one range."""
        started = time.perf_counter()
        head = family.head
        with probe.compiling_graph(f"{self.graph} {head.name} {compile_range}"):
            compiled = self._fresh(family, batch, compile_range)
        self._report(head, compile_range, started, reused=False)
        return compiled

    def reuse(self, piece: Piece, versions: Mapping[Range, Compiled]) -> None:
        """Say that a twin's versions serve this piece."""
        for each in versions:
            self._report(piece, each, time.perf_counter(), reused=True)

    def _fresh(self, family: Family, batch: frozenset[sympy.Symbol], compile_range: Range) -> Compiled:
        piece, constants = lift(family.head, family.texts[0], family.lifted)
        shapes = self.config.dynamic_shapes_config.type
        ready = made_ready(piece.module, batch, compile_range, shapes, constants)
        with pass_context(compile_range):
            runnable = self.compiler.compile(ready.module, ready.inputs, self._options())
        assumed = assumptions(ready)
        return Compiled(runnable, lambda others: not assumed or holds(assumed, ready, others))

    def _options(self) -> dict[str, Any]:
        if not self.compiler.uses_inductor:
            return {}
        options = dict(self.config.inductor_compile_config)
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
