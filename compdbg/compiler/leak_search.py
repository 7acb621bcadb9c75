"""Which operator it is through which added rows get out: the graph again, operator by operator.

Run once a graph and leak, by eager: with the caller's rows alone, which says how large each value is
without added rows, then with zeros and with poison in the added rows. Where the true rows of a value differ
between the last two though those of all that it is made from agree, its operator has mixed them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any, Literal, NamedTuple

import torch
from torch import fx

from compdbg.compiler.forward_context import ForwardContext, pushed
from compdbg.compiler.graph_data import load_graph
from compdbg.compiler.leak_notes import Kept, Key, Mixed, Noting, Shapes, TooLarge, first_other
from compdbg.compiler.pieces import Piece, Reference, Split
from compdbg.compiler.splitting import line_of, operator_name
from compdbg.events import Where


class Mixing(NamedTuple):
    """What is known of where a leak begins. `op` is empty where eager's operators do not leak."""

    op: str = ""
    node: str = ""
    piece: str = ""
    where: Where | None = None
    writes: bool = False
    """It writes to the memory that was found changed, and mixes no rows itself."""
    told: Literal["operator", "compiled", ""] = ""
    """`operator`; `compiled`: only compiled code leaks; nothing: it could not be told."""


class Way(NamedTuple):
    """How to run the graph once: its inputs, and the context of the pass. `inputs` puts memory back first."""

    inputs: Callable[[], Sequence[Any] | None]
    context: ForwardContext | None


class LeakSearch:
    """Looks for the operators behind the leaks of one graph."""

    def __init__(self, split: Split) -> None:
        self.split = split
        self._graphs: dict[str, fx.GraphModule] | None = None
        self._known: dict[str, Mixing] = {}

    def find(self, what: str, alone: Way, plain: Way, poisoned: Way, memory: torch.Tensor | None) -> Mixing:
        """The operator behind what was seen changed: `output N`, or `memory` of this name."""
        if what not in self._known:
            try:
                with torch.random.fork_rng():
                    self._known[what] = self._find(what, alone, plain, poisoned, memory)
            except Exception:  # an operator that can't run at another size, or a graph that can't be loaded
                self._known[what] = Mixing()
        return self._known[what]

    def _find(self, what: str, alone: Way, plain: Way, poisoned: Way, memory: torch.Tensor | None) -> Mixing:
        shapes = self._run(alone, Shapes(), None)
        kept = self._run(plain, Kept(shapes.of), memory)
        seen = self._run(poisoned, Mixed(shapes.of, kept.values), memory)
        if what.startswith("output "):
            start = self._key_of(self.split.outputs[int(what.removeprefix("output "))])
            found = start if start in seen.mixed else None
        else:
            found = first_other(kept.writes, seen.writes)
        if found is None:
            return Mixing(told="compiled")
        first = self._begin(found, seen)
        node = next(node for node in self._graph(first[0]).graph.nodes if node.name == first[1])
        writes = not what.startswith("output ") and first == found and first not in seen.returned
        return Mixing(operator_name(node), node.name, first[0], line_of(node), writes, "operator")

    def _begin(self, found: Key, seen: Mixed) -> Key:
        """Back along values whose true rows differ, to the first of them."""
        while True:
            before = next((key for key in self._made_from(found) if key in seen.mixed), None)
            before = before or seen.writer_before(found)
            if before is None:
                return found
            found = before

    def _made_from(self, key: Key) -> Iterator[Key]:
        piece = self._piece(key[0])
        node = next(node for node in self._graph(key[0]).graph.nodes if node.name == key[1])
        placeholders = [each.name for each in self._graph(key[0]).graph.find_nodes(op="placeholder")]
        for source in node.all_input_nodes:
            if source.op != "placeholder":
                yield key[0], source.name
                continue
            maker = self._key_of(Reference(piece.inputs[placeholders.index(source.name)]))
            if maker is not None:
                yield maker

    def _key_of(self, value: Any) -> Key | None:
        """The piece and node that a value of the whole graph comes from; None for an input of the graph."""
        name = getattr(value, "name", None)
        for piece in self.split.pieces:
            if name in piece.outputs:
                results = self._graph(piece.name).graph.output_node().args[0]
                node: Any = results[piece.outputs.index(name)]
                return piece.name, str(node.name)
        return None

    def _piece(self, name: str) -> Piece:
        return next(piece for piece in self.split.pieces if piece.name == name)

    def _graph(self, name: str) -> fx.GraphModule:
        if self._graphs is None:
            kept = self.split.kept_graphs
            self._graphs = {
                p.name: p.module if p.module is not None else load_graph(kept[p.name])
                for p in self.split.pieces
            }
        return self._graphs[name]

    def _run(self, way: Way, notes: Any, memory: torch.Tensor | None) -> Any:
        """The whole graph once; each value is noted, and each change of the memory."""
        torch.manual_seed(0)
        inputs = way.inputs()
        if inputs is None:
            raise TooLarge
        values = dict(zip(self.split.inputs, inputs, strict=True))
        notes.watched, notes.latest = memory, None if memory is None else memory.clone()
        with nullcontext() if way.context is None else pushed(way.context), torch.no_grad():
            for piece in self.split.pieces:
                noting = Noting(self._graph(piece.name), piece.name, notes)
                results = noting.run(*(values[name] for name in piece.inputs))
                values.update(zip(piece.outputs, results, strict=True))
        return notes
