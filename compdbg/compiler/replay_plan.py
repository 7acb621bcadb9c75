"""The straight line of one captured size: replays, and the pieces between them, with nothing else.

Once all compiled pieces of a size are captured, everything that passes between pieces stands at a
known address. What is left of a call is a replay a piece and a call a splitting piece; it is
written out as one Python function, without a check or a look-up in between.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from compdbg.compiler.arena import copy_values
from compdbg.compiler.cuda_graph import CUDAGraphEntry, CUDAGraphWrapper


class Link(Struct, frozen=True):
    """One piece of a chain, by the names of the values that go in and out."""

    piece: str
    inputs: list[str]
    outputs: list[str]


class Chain(Struct, frozen=True):
    """How pieces are called one after the other; a graph's inputs and outputs by name."""

    inputs: list[str]
    links: list[Link]
    outputs: list[str]


class ReplayPlan:
    """`run(flat inputs) -> outputs` for one captured size. `source` is what it does, to be read."""

    def __init__(self, source: str, names: dict[str, Any]) -> None:
        self.source = source
        exec(compile(source, "<replay plan>", "exec"), names)
        self.run: Callable[[Sequence[Any]], Sequence[Any]] = names["plan"]


def plan_replay(stitched: Any, key: int) -> ReplayPlan | None:
    """A plan for the captures at `key`; None where the chain is unknown or a piece has no capture.

    `stitched` has `chain` and `pieces`, the callable of each piece by its name.
    """
    chain: Chain | None = getattr(stitched, "chain", None)
    pieces: Mapping[str, Any] | None = getattr(stitched, "pieces", None)
    if chain is None or pieces is None:
        return None
    writer = _Writer(chain)
    for link in chain.links:
        piece = pieces[link.piece]
        if not isinstance(piece, CUDAGraphWrapper):
            writer.call(link, getattr(piece, "forward", piece))
            continue
        entry = piece.entries.get(key)
        if entry is None or entry.replay is None:
            return None
        writer.replay(link, entry)
    return writer.plan(chain.outputs)


class _Writer:
    """Writes the function. Values that never change at this size are global names in it."""

    def __init__(self, chain: Chain) -> None:
        self._lines: list[str] = []
        self._made = 0
        self._names: dict[str, Any] = {"copy_values": copy_values}
        self._value = {name: f"inputs[{i}]" for i, name in enumerate(chain.inputs)}

    def call(self, link: Link, piece: Callable[..., Any]) -> None:
        """A piece that runs as it is, on every call."""
        words = ", ".join(self._value[name] for name in link.inputs)
        results = [f"v{self._made + i}" for i in range(len(link.outputs))]
        self._made += len(results)
        taken = f"{', '.join(results)}, = " if results else ""
        self._lines.append(f"{taken}{self._constant(piece)}({words})")
        self._value.update(zip(link.outputs, results, strict=True))

    def replay(self, link: Link, entry: CUDAGraphEntry) -> None:
        """A captured piece; what is new on every call is copied to where the capture reads it."""
        moved = [
            (self._value[link.inputs[i]], self._constant(landing), address, i in entry.written)
            for i, landing, address in entry.landings
        ]
        for given, landing, address, _ in moved:
            self._lines.append(f"if {given}.data_ptr() != {address}: copy_values({landing}, {given})")
        self._lines.append(f"{self._constant(entry.replay)}()")
        for given, landing, address, written in moved:
            if written:
                self._lines.append(f"if {given}.data_ptr() != {address}: copy_values({given}, {landing})")
        for name, output in zip(link.outputs, entry.outputs, strict=True):
            self._value[name] = self._constant(output)

    def plan(self, outputs: Sequence[str]) -> ReplayPlan:
        lines = [*self._lines, f"return [{', '.join(self._value[name] for name in outputs)}]"]
        return ReplayPlan("def plan(inputs):\n" + "".join(f"    {line}\n" for line in lines), self._names)

    def _constant(self, value: Any) -> str:
        name = f"c{len(self._names)}"
        self._names[name] = value
        return name
