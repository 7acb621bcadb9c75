"""Inductor's own graph partition in place of our split: its parts are captured like our pieces.

With `use_inductor_graph_partition` the whole graph goes to Inductor, passes and fusions see all of
it, and the scheduler cuts it at the splitting operators afterwards. Inductor hands each part to a
wrapper of ours when an artifact is made or loaded.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from compdbg.compiler.config import CompilationConfig
from compdbg.compiler.cuda_graph import wrap_piece

Part = Callable[[list[Any]], Sequence[Any]]


class Statics:
    """Addresses of a model's parameters and buffers: inputs that no call moves."""

    def __init__(self) -> None:
        self.addresses: frozenset[int] = frozenset()

    def note(self, inputs: Sequence[Any], static: Sequence[int]) -> None:
        tensors = (inputs[i] for i in static)
        self.addresses = frozenset(t.data_ptr() for t in tensors if isinstance(t, torch.Tensor))


class CapturedPart:
    """One part: on its first call it is known which inputs stay, then it is a piece like any other."""

    def __init__(
        self, part: Part, name: str, graph: str, config: CompilationConfig, statics: Statics
    ) -> None:
        self.part = part
        self.name = name
        self._graph = graph
        self._config = config
        self._statics = statics
        self._piece: Callable[..., Sequence[Any]] | None = None

    def __call__(self, args: list[Any]) -> Sequence[Any]:
        given = list(args)
        args.clear()
        if self._piece is None:
            self._piece = self._wrapped(given)
        return self._piece(*given)

    def _wrapped(self, given: Sequence[Any]) -> Callable[..., Sequence[Any]]:
        tensors = [i for i, value in enumerate(given) if isinstance(value, torch.Tensor)]
        static = [i for i in tensors if given[i].data_ptr() in self._statics.addresses]
        part = self.part
        return wrap_piece(
            lambda *inputs: part(list(inputs)),
            graph=self._graph,
            piece=self.name,
            from_splitting=[i for i in tensors if i not in static],
            static=static,
            config=self._config,
        )


def partition_options(config: CompilationConfig) -> dict[str, Any]:
    """What Inductor is told, to cut at the splitting operators."""
    if not config.use_inductor_graph_partition:
        return {}
    return {"graph_partition": True, "custom_should_partition_ops": list(config.splitting_ops or [])}


@contextlib.contextmanager
def capturing_parts(graph: str, config: CompilationConfig, statics: Statics) -> Iterator[None]:
    """Artifacts made or loaded inside the block have their parts captured, as configured."""
    if not config.use_inductor_graph_partition or not config.cudagraph_mode.has_piecewise():
        yield
        return
    from torch._inductor import config as inductor
    from torch._inductor.utils import set_customized_partition_wrappers

    def wrap(part: Part, about: Any) -> CapturedPart:
        return CapturedPart(part, f"part_{about.partition_index}", graph, config, statics)

    set_customized_partition_wrappers(wrap)
    try:
        with inductor.patch(partition_options(config)):
            yield
    finally:
        set_customized_partition_wrappers(None)
