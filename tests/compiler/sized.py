"""Graphs made by hand, as the backend would hand them to `SizedCall`: plain callables and a spec."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from compdbg import probe
from compdbg.compiler.config import CompilationConfig, CUDAGraphMode
from compdbg.compiler.cuda_graph import wrap_piece
from compdbg.compiler.dynamic_spec import BatchDim, DynamicInput, DynamicSpec, SizeInput, SizeSource
from compdbg.compiler.replay_plan import Chain, Link
from compdbg.compiler.static_inputs import SizedCall
from compdbg.events import Event

ROWS = (BatchDim(0),)


class Heard:
    """A sink that keeps events in a list."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def write(self, event: Event, parent: int | None) -> int:
        self.events.append(event)
        return len(self.events)

    def payload(self, text: str) -> str:
        return text

    def of(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    def __enter__(self) -> Heard:
        probe.set_sink(self)
        return self

    def __exit__(self, *error: object) -> None:
        probe.set_sink(None)


def config(*sizes: int, mode: str = "PIECEWISE", **more: Any) -> CompilationConfig:
    return CompilationConfig(cudagraph_mode=CUDAGraphMode[mode], cudagraph_capture_sizes=list(sizes), **more)


def spec(tensors: int = 1, results: int = 1, **more: Any) -> DynamicSpec:
    """Graph inputs: the batch size, then `tensors` tensors of that many rows; all outputs have rows."""
    given: dict[str, Any] = {
        "size": SizeSource(0),
        "size_inputs": (SizeInput(0),),
        "inputs": tuple(DynamicInput(1 + i, ROWS) for i in range(tensors)),
        "outputs": (ROWS,) * results,
        "input_names": ("s0", "x", "y", "z")[: 1 + tensors],
    }
    return DynamicSpec(**(given | more))


def one_piece(function: Callable[..., Any], settings: CompilationConfig, **wrap: Any) -> Callable[..., Any]:
    """A graph of one compiled piece: `function(n, *tensors) -> tuple`."""
    return wrap_piece(function, graph="G", piece="p0", config=settings, **wrap)


def sized(function: Callable[..., Any], settings: CompilationConfig, what: DynamicSpec) -> SizedCall:
    return SizedCall(one_piece(function, settings), what, settings, "G")


class Stitched:
    """A split graph: pieces in the order of `steps`, each `(name, "inputs", "outputs")`."""

    def __init__(
        self, inputs: str, steps: Sequence[tuple[str, str, str]], outputs: str, pieces: Mapping[str, Any]
    ) -> None:
        links = [Link(piece, given.split(), made.split()) for piece, given, made in steps]
        self.chain: Chain | None = Chain(inputs.split(), links, outputs.split())
        self.pieces = pieces
        self.calls = 0

    def __call__(self, *args: Any) -> list[Any]:
        self.calls += 1
        assert self.chain is not None
        values = dict(zip(self.chain.inputs, args, strict=True))
        for link in self.chain.links:
            made = self.pieces[link.piece](*(values[name] for name in link.inputs))
            values.update(zip(link.outputs, made, strict=True))
        return [values[name] for name in self.chain.outputs]
