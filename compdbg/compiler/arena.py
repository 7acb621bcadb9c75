"""Memory at addresses that stay: what captures read and write, shared by sizes that never run at once."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import torch


class Arena:
    """One block of memory a use; each size takes a prefix, so that 50 sizes cost as much as the largest.

    Take the largest first: a block that is too small is replaced, and tensors taken from it before
    keep it alive. What was taken for one size is overwritten by the next use of another.
    """

    def __init__(self) -> None:
        self._blocks: dict[Hashable, torch.Tensor] = {}

    def take(self, use: Hashable, like: torch.Tensor) -> torch.Tensor:
        """A tensor of the shape, strides and type of `like`, at the address that belongs to `use`."""
        return self.shaped(use, tuple(like.shape), tuple(like.stride()), like.dtype, like.device)

    def shaped(
        self,
        use: Hashable,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        dtype: torch.dtype,
        device: torch.device,
    ) -> torch.Tensor:
        needed = extent(shape, strides) * dtype.itemsize
        block = self._blocks.get(use)
        if block is None or block.numel() < needed or block.device != device:
            with torch.inference_mode(False):
                block = torch.zeros(max(needed, 1), dtype=torch.uint8, device=device)
            self._blocks[use] = block
        with torch.inference_mode(False):
            usable = block[: block.numel() // dtype.itemsize * dtype.itemsize]
            return torch.as_strided(usable.view(dtype), shape, strides)

    @property
    def bytes(self) -> int:
        return sum(block.numel() for block in self._blocks.values())


def extent(shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """How many elements lie between the first and the last of a strided tensor, both included."""
    if 0 in shape:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))


def copy_values(target: torch.Tensor, source: torch.Tensor) -> None:
    """`target.copy_(source)` for equal shapes, also where both repeat elements by a stride of 0."""
    if 0 in target.stride():
        target, source = _without_repeats(target), _without_repeats(source)
    target.copy_(source)


class Copies:
    """Copies into the same places again and again: one launch for all that have one type."""

    def __init__(self, targets: Sequence[torch.Tensor]) -> None:
        groups: dict[torch.dtype, list[int]] = {}
        self._targets = list(targets)
        self._single = [i for i, target in enumerate(targets) if 0 in target.stride()]
        for i, target in enumerate(targets):
            if i not in self._single:
                groups.setdefault(target.dtype, []).append(i)
        self._groups = [(which, [targets[i] for i in which]) for which in groups.values()]

    def __call__(self, sources: Sequence[torch.Tensor]) -> None:
        """Copy each source to its target; shapes and types are equal."""
        for which, targets in self._groups:
            if len(which) == 1:
                targets[0].copy_(sources[which[0]])
            else:
                torch._foreach_copy_(targets, [sources[i] for i in which])
        for i in self._single:
            copy_values(self._targets[i], sources[i])


def _without_repeats(tensor: torch.Tensor) -> torch.Tensor:
    for dim, (size, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
        if stride == 0 and size > 1:
            tensor = tensor.narrow(dim, 0, 1)
    return tensor


def storage_address(value: Any) -> int:
    """Where a tensor's storage begins: equal for tensors that share memory."""
    return int(value.untyped_storage().data_ptr())
