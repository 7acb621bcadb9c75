"""What Dynamo's code calls: the stitched pieces behind a `SizedCall`, savable and loadable as a whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch._dynamo.aot_compile import SerializableCallable

from compdbg.compiler.codegen import graph_code
from compdbg.compiler.config import CompilationConfig
from compdbg.compiler.cuda_graph import wrap_piece
from compdbg.compiler.dynamic_spec import DynamicSpec
from compdbg.compiler.pieces import Piece, Split
from compdbg.compiler.piecewise_backend import PiecewiseBackend
from compdbg.compiler.splitting import COMPILED
from compdbg.compiler.static_inputs import SizedCall
from compdbg.compiler.stitched import Stitched


class CompiledModel(SerializableCallable):  # type: ignore[misc]
    """A compiled graph, from its flat inputs to its outputs."""

    def __init__(
        self,
        name: str,
        config: CompilationConfig,
        split: Split,
        pieces: Mapping[str, Any],
        spec: DynamicSpec,
        static: frozenset[str],
    ) -> None:
        self.name = name
        self.config = config
        self.split = split
        self.pieces = pieces
        self.spec = spec
        called = {
            piece.name: self._called(pieces[piece.name], piece.inputs, static)
            if piece.kind == COMPILED
            else pieces[piece.name]
            for piece in split.pieces
        }
        self.stitched = Stitched(split, called, name)
        self._call: Callable[..., Sequence[Any]] = SizedCall(self.stitched, spec, config, name)
        if split.returned_sizes is not None:
            self._call = _with_sizes(self._call, split, split.returned_sizes)

    def __call__(self, *inputs: Any) -> Sequence[Any]:
        return self._call(*inputs)

    def _called(self, piece: PiecewiseBackend, inputs: Sequence[str], static: frozenset[str]) -> Any:
        fresh = self.split.fresh
        return wrap_piece(
            piece.simplest(),
            graph=self.name,
            piece=piece.name,
            from_splitting=[i for i, name in enumerate(inputs) if name in fresh],
            static=[i for i, name in enumerate(inputs) if name in static],
            config=self.config,
        )

    @classmethod
    def serialize_compile_artifacts(cls, fn: Any) -> bytes:
        raise NotImplementedError

    @classmethod
    def deserialize_compile_artifacts(cls, data: bytes) -> Any:
        raise NotImplementedError


def _with_sizes(
    call: Callable[..., Sequence[Any]], split: Split, sizes: Piece
) -> Callable[..., Sequence[Any]]:
    """The call, with the sizes that the graph returns put among its outputs: the caller's own."""
    compute = graph_code(sizes.module, "sizes").build()
    taken = [split.inputs.index(name) for name in sizes.inputs]
    places = split.returned_at

    def call_with_sizes(*inputs: Any) -> Sequence[Any]:
        outputs = list(call(*inputs))
        for place, size in zip(places, compute(*(inputs[i] for i in taken)), strict=True):
            outputs[place] = size
        return outputs

    return call_with_sizes
