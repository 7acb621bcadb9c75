"""The pieces of one graph chained to one callable, with all that a replay plan wants to know."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from compdbg.compiler.codegen import chain_code
from compdbg.compiler.pieces import Reference, Split
from compdbg.compiler.replay_plan import Chain, Link

Runnable = Callable[..., Sequence[Any]]


class Stitched:
    """`stitched(*graph_inputs) -> outputs`; `pieces` are called by name, in the order of `chain`."""

    def __init__(self, split: Split, pieces: Mapping[str, Any], name: str) -> None:
        self.pieces = dict(pieces)
        self.chain = _chain(split)
        self.code = chain_code(split, "chain")
        self.name = name
        called = {piece: getattr(what, "forward", what) for piece, what in self.pieces.items()}
        self.run: Runnable = self.code.build(**called)

    def __call__(self, *inputs: Any) -> Sequence[Any]:
        return self.run(*inputs)


def _chain(split: Split) -> Chain | None:
    """The chain as data; None where an output is no value of the graph."""
    outputs = split.outputs if isinstance(split.outputs, (list, tuple)) else [split.outputs]
    names = [output.name for output in outputs if isinstance(output, Reference)]
    if len(names) != len(outputs):
        return None
    return Chain(split.inputs, [Link(p.name, p.inputs, p.outputs) for p in split.pieces], names)
