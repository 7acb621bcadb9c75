"""Whether a capture's inputs are what they were: checked on every replay, so in C++ where torch has it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch

_in_cpp = getattr(torch._C, "_tensors_data_ptrs_at_indices_equal", None)


class Fixed:
    """Arguments that are not copied into place: where tensors were at capture, and plain values."""

    def __init__(self, args: Sequence[Any], fixed: Iterable[int], names: Sequence[str] = ()) -> None:
        fixed = list(fixed)
        self._indices = [i for i in fixed if isinstance(args[i], torch.Tensor)]
        self._addresses = [args[i].data_ptr() for i in self._indices]
        self._plain = [(i, args[i]) for i in fixed if not isinstance(args[i], torch.Tensor)]
        self._names = names

    def hold(self, args: list[Any]) -> bool:
        """Whether all tensors are where they were, and all values are the same."""
        for i, value in self._plain:
            if args[i] != value:
                return False
        if _in_cpp is not None:
            try:
                return bool(_in_cpp(args, self._addresses, self._indices))
            except (TypeError, RuntimeError):
                return False
        return [_address(args[i]) for i in self._indices] == self._addresses

    def moved(self, args: Sequence[Any]) -> Iterator[tuple[str, int, int]]:
        """Name, address then and address now of each tensor that is somewhere else."""
        for i, was in zip(self._indices, self._addresses, strict=True):
            now = _address(args[i])
            if now != was:
                yield self._name(i), was, now

    def changed(self, args: Sequence[Any]) -> Iterator[tuple[str, Any, Any]]:
        """Name, value then and value now of each plain value that is another one."""
        for i, was in self._plain:
            if args[i] != was:
                yield self._name(i), was, args[i]

    def _name(self, i: int) -> str:
        return self._names[i] if i < len(self._names) else f"input {i}"


def _address(value: Any) -> int:
    return int(value.data_ptr()) if isinstance(value, torch.Tensor) else 0
