"""The graph of a model of the built-in compiler in eager: whole, and its pieces beside compiled ones."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from compdbg.hooks.comparison import COPIED_BYTES, Eager, NotComparable, as_tensors
from compdbg.hooks.journal import Journal, Unseen, journaling, opaque, tensors_in
from compdbg.hooks.op_kinds import nodes_of
from compdbg.hooks.write_guard import place


class ModelReference(Eager):
    """The pieces of a `CompiledModel` as they were cut from Dynamo's graph."""

    def __init__(self, model: Any, split: Any, graphs: Mapping[str, Any]) -> None:
        self.split = split
        self.weights = set(model.static)
        self.graphs = {piece.name: graphs.get(piece.name) or _graph(split, piece) for piece in split.pieces}
        self.lacks_graphs = None in self.graphs.values()
        known = (graph for graph in self.graphs.values() if graph is not None)
        super().__init__([node for graph in known for node in nodes_of(graph)])

    def results(self, inputs: Sequence[Any]) -> list[Any]:
        """What eager gives for these inputs; whatever it writes is put back.

        Raises:
            NotComparable: it can't be run beside the program, or gives other results each time.
        """
        if self.lacks_graphs:
            raise NotComparable(
                "the model came from the compile cache, which kept no graph of its pieces; "
                "COMPDBG_DISABLE_COMPILE_CACHE=1 compiles anew"
            )
        return self.twice(inputs, lambda: self._once(lambda: self._chain(inputs), inputs))

    def difference(self, expected: list[Any], result: Any) -> dict[str, Any] | None:
        """The first result of the model that differs from eager's; sizes that it returns are none."""
        returned = [r for at, r in enumerate(result) if at not in self.split.returned_at]
        return self.first_difference(expected, returned)

    def piece_that_differs(self, model: Any, inputs: Sequence[Any]) -> str | None:
        """The first compiled piece that by itself gives other results than in eager; "" where none does.

        None where that can't be told. Memory is as the program's call left it, for both sides alike.
        """
        try:
            with self.apart(), self._put_back(inputs) as outer:
                return self._first_wrong(model, inputs, outer)
        except (NotComparable, Unseen):
            return None

    def _first_wrong(self, model: Any, inputs: Sequence[Any], outer: Journal) -> str:
        values = dict(zip(self.split.inputs, inputs, strict=True))
        for piece in self.split.pieces:
            args = [values[name] for name in piece.inputs]
            if piece.name in model.pieces:
                with self._put_back(args) as journal, journaling(journal):
                    expected = _copied(self.graphs[piece.name](*args))
                given = [_apart_from(journal, value) for value in args]
                found = model.pieces[piece.name].simplest()(*given)
                if self.first_difference(expected, found) is not None:
                    return str(piece.name)
            with journaling(outer):
                values.update(zip(piece.outputs, self.graphs[piece.name](*args), strict=True))
        return ""

    def _once(self, run: Callable[[], list[Any]], inputs: Sequence[Any]) -> list[Any]:
        try:
            with self._put_back(inputs) as journal, journaling(journal):
                return run()
        except Unseen as why:
            raise NotComparable(str(why)) from None

    @contextmanager
    def _put_back(self, inputs: Sequence[Any]) -> Iterator[Journal]:
        """Memory that the block writes to is as before afterwards."""
        journal = Journal()
        try:
            if unseen := opaque(self.custom_ops):
                self._keep_state(journal, inputs, unseen)
            yield journal
        finally:
            journal.restore()

    def _keep_state(self, journal: Journal, inputs: Sequence[Any], unseen: list[str]) -> None:
        """All that operators whose kernels are not seen may write to: the model's inputs, the metadata."""
        weights = {
            place(v) for name, v in zip(self.split.inputs, inputs, strict=False) if name in self.weights
        }
        state = [t for t in (*tensors_in(list(inputs)), *_metadata()) if place(t) not in weights]
        memory = {place(t): t.untyped_storage().nbytes() for t in state}
        if sum(memory.values()) > COPIED_BYTES:
            raise NotComparable(
                f"{unseen[0]} may write to inputs or metadata unseen, and these are too large to copy"
            )
        for tensor in state:
            journal.keep(tensor)

    def _chain(self, inputs: Sequence[Any]) -> list[Any]:
        values = dict(zip(self.split.inputs, inputs, strict=True))
        for piece in self.split.pieces:
            args = [values[name] for name in piece.inputs]
            values.update(zip(piece.outputs, self.graphs[piece.name](*args), strict=True))
        outputs = self.split.outputs
        outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
        return _copied([values.get(getattr(output, "name", None)) for output in outputs])


def _graph(split: Any, piece: Any) -> Any:
    """The graph of a piece; None where it came from a cache without it."""
    if piece.module is not None:
        return piece.module
    kept = split.kept_graphs.get(piece.name)
    return None if kept is None else sys.modules["compdbg.compiler.graph_data"].load_graph(kept)


def _metadata() -> list[Any]:
    """Tensors of the metadata that the caller gave for this forward pass."""
    context = sys.modules["compdbg.compiler.forward_context"].current()
    if context is None:
        return []
    named = sys.modules["compdbg.compiler.static_metadata"].tensors_of(context.attn_metadata)
    return [tensor for _, tensor in named]


def _copied(results: Any) -> list[Any]:
    """Results that stay what they are when memory is put back."""
    return [None if r is None else r.clone() for r in as_tensors(results)]


def _apart_from(journal: Journal, value: Any) -> Any:
    """A tensor that the piece writes to, as a copy of the same layout; anything else as it is."""
    if not isinstance(value, sys.modules["torch"].Tensor) or place(value) not in journal.kept:
        return value
    storage = value.untyped_storage().clone()
    return value.new_empty(0).set_(storage, value.storage_offset(), value.size(), value.stride())
