"""What is noted of the values of a graph, operator by operator, and of the memory that it writes to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import fx

from compdbg.compiler.arena import storage_address
from compdbg.compiler.effects import written_by

MOST_BYTES = 1 << 30
"""Of values that are kept to be compared."""
Key = tuple[str, str]
"""A value: its piece, and its node there."""


class TooLarge(Exception):
    """Values take more memory than is to be had for this."""


class Noting(fx.Interpreter):  # type: ignore[misc]
    """Runs one piece, and notes the value of each node."""

    def __init__(self, graph: fx.GraphModule, piece: str, notes: Any) -> None:
        super().__init__(graph)
        self._piece, self._notes = piece, notes

    def run_node(self, n: fx.Node) -> Any:
        value = super().run_node(n)
        if n.op.startswith("call"):
            key = (self._piece, n.name)
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            given = list(_tensors([*args, *kwargs.values()]))
            returned = list(_tensors(value))
            written = list(_tensors([self.env[node] for node in written_by(n)]))
            self._notes.note(key, [*returned, *written], len(returned), given)
            self._notes.look(key)
        return value


class Notes:
    """What one run is noted for, and how the memory that was found changed went."""

    watched: torch.Tensor | None = None
    latest: torch.Tensor | None = None

    def __init__(self) -> None:
        self.writes: dict[Key, torch.Tensor] = {}

    def look(self, key: Key) -> None:
        """Note what an operator has written to the memory."""
        if self.watched is not None and not same(self.watched, self.latest):
            self.latest = self.writes[key] = self.watched.clone()


class Shapes(Notes):
    """How large values are without added rows."""

    def __init__(self) -> None:
        super().__init__()
        self.of: dict[Key, list[torch.Size]] = {}

    def note(self, key: Key, values: list[torch.Tensor], returned: int, given: list[torch.Tensor]) -> None:
        self.of[key] = [value.shape for value in values]


class Kept(Notes):
    """True rows of each value."""

    def __init__(self, shapes: Mapping[Key, list[torch.Size]]) -> None:
        super().__init__()
        self._shapes = shapes
        self._bytes = 0
        self.values: dict[Key, list[torch.Tensor | None]] = {}

    def note(self, key: Key, values: list[torch.Tensor], returned: int, given: list[torch.Tensor]) -> None:
        self.values[key] = [None if cut is None else cut.clone() for cut in _cut(values, self._shapes[key])]
        self._bytes += sum(v.numel() * v.element_size() for v in self.values[key] if v is not None)
        if self._bytes > MOST_BYTES:
            raise TooLarge


class Mixed(Notes):
    """Values whose true rows are not what they were."""

    def __init__(
        self, shapes: Mapping[Key, list[torch.Size]], values: Mapping[Key, list[torch.Tensor | None]]
    ) -> None:
        super().__init__()
        self._shapes, self._values = shapes, values
        self.mixed: set[Key] = set()
        self.returned: set[Key] = set()
        """Those that give it as a result, and do not only write it."""
        self._given: dict[Key, set[int]] = {}
        """Where the inputs of each operator are, in the order of the graph."""
        self._writes: dict[Key, set[int]] = {}

    def note(self, key: Key, values: list[torch.Tensor], returned: int, given: list[torch.Tensor]) -> None:
        pairs = zip(_cut(values, self._shapes[key]), self._values[key], strict=True)
        differ = [now is not None and was is not None and not same(now, was) for now, was in pairs]
        self._given[key] = {storage_address(tensor) for tensor in given}
        if any(differ):
            self.mixed.add(key)
        if any(differ[:returned]):
            self.returned.add(key)
        if any(differ[returned:]):
            wrong = zip(values[returned:], differ[returned:], strict=True)
            self._writes[key] = {storage_address(tensor) for tensor, differs in wrong if differs}

    def writer_before(self, key: Key) -> Key | None:
        """The last operator before this one that has written other true rows to what this one is given."""
        found = None
        for earlier in self._given:
            if earlier == key:
                return found
            if self._writes.get(earlier, set()) & self._given[key]:
                found = earlier
        return found


def _cut(values: list[torch.Tensor], shapes: list[torch.Size]) -> list[torch.Tensor | None]:
    """The parts that there are without added rows; None for a value of another form."""
    return [_rows(value, shape) for value, shape in zip(values, shapes, strict=True)]


def _rows(value: torch.Tensor, shape: torch.Size) -> torch.Tensor | None:
    if value.dim() != len(shape) or any(a < b for a, b in zip(value.shape, shape, strict=True)):
        return None
    for dim, length in enumerate(shape):
        value = value.narrow(dim, 0, length)
    return value


def first_other(one: Mapping[Key, torch.Tensor], other: Mapping[Key, torch.Tensor]) -> Key | None:
    """The first operator after which memory was not alike."""
    for key in [*one, *(key for key in other if key not in one)]:
        if key not in one or key not in other or not same(one[key], other[key]):
            return key
    return None


def same(one: torch.Tensor, other: torch.Tensor | None) -> bool:
    return other is not None and bool(torch.isclose(one, other, rtol=0, atol=0, equal_nan=True).all())


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)
