"""Whether a capture's inputs are what they were: checked on every replay, in a microsecond or two.

A model of 16 layers has 150 parameters. Asking each for its address would take longer than the
checks may. Parameters are almost always the same Python objects as at capture, which one
comparison of lists in C tells; memory swapped below a parameter (`p.data = ...`, as `module.to`
does) is looked for in a few of them on each call, in turn.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import torch

_ALWAYS = 24
_IN_TURN = 8


class FixedInputs:
    """Arguments that are not copied into place: where tensors were at capture, and plain values."""

    def __init__(
        self, args: Sequence[Any], fixed: Iterable[int], static: Collection[int], names: Sequence[str] = ()
    ) -> None:
        fixed = list(fixed)
        tensors = {i: args[i] for i in fixed if isinstance(args[i], torch.Tensor)}
        self._names = names
        self.static = frozenset(self._name(i) for i in static if i in tensors)
        """Names of those that are the model's own: parameters and buffers."""
        self._plain = [(i, args[i]) for i in fixed if i not in tensors]
        self._addresses = {i: tensor.data_ptr() for i, tensor in tensors.items()}
        by_object = [i for i, tensor in tensors.items() if i in static and tensor.numel() > 1]
        if len(by_object) <= _ALWAYS:
            by_object = []
        by_address = [i for i in tensors if i not in set(by_object)]
        self._always = [(i, self._addresses[i]) for i in by_address]
        self._runs = [(low, high, list(args[low:high])) for low, high in _runs(by_object)]
        in_turn = [(i, self._addresses[i]) for i in by_object]
        chunks = range(0, len(in_turn), _IN_TURN)
        self._turns = [self._always + in_turn[at : at + _IN_TURN] for at in chunks]
        self._turn = 0

    def hold(self, args: list[Any]) -> bool:
        """Whether all tensors are where they were, and all values are the same."""
        try:
            if any([args[i] != value for i, value in self._plain]):  # noqa: C419
                return False
            if any([args[i].data_ptr() != address for i, address in self._due()]):  # noqa: C419
                return False
            same = all([_same_objects(args[low:high], objects) for low, high, objects in self._runs])  # noqa: C419
        except AttributeError:
            return False
        return same or not any(self.moved(args))

    def _due(self) -> list[tuple[int, int]]:
        """The addresses to ask for on this call."""
        if not self._turns:
            return self._always
        self._turn = (self._turn + 1) % len(self._turns)
        return self._turns[self._turn]

    def moved(self, args: Sequence[Any]) -> Iterator[tuple[str, int, int]]:
        """Name, address then and address now of each tensor that is somewhere else."""
        for i, was in self._addresses.items():
            now = args[i].data_ptr() if isinstance(args[i], torch.Tensor) else 0
            if now != was:
                yield self._name(i), was, now

    def changed(self, args: Sequence[Any]) -> Iterator[tuple[str, Any, Any]]:
        """Name, value then and value now of each plain value that is another one."""
        for i, was in self._plain:
            if args[i] != was:
                yield self._name(i), was, args[i]

    def _name(self, i: int) -> str:
        return self._names[i] if i < len(self._names) else f"input {i}"


def _same_objects(some: list[Any], others: list[Any]) -> bool:
    """Comparing lists asks for identity first; tensors of many elements that are not the same raise."""
    try:
        return some == others
    except RuntimeError:
        return False


def _runs(indices: Iterable[int]) -> list[tuple[int, int]]:
    """Ascending indices as half-open ranges."""
    runs: list[tuple[int, int]] = []
    for i in indices:
        if runs and runs[-1][1] == i:
            runs[-1] = (runs[-1][0], i + 1)
        else:
            runs.append((i, i + 1))
    return runs
