"""Whether tensors lie in each other's memory: buffers that they are copied to do not."""

from __future__ import annotations

import torch

from compdbg.compiler.arena import storage_address


def overlap(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether a write to one may be a write to the other; columns of one matrix, side by side, are apart."""
    if storage_address(one) != storage_address(other) or not one.numel() or not other.numel():
        return False
    begins = [tensor.storage_offset() * tensor.element_size() for tensor in (one, other)]
    lengths = [_extent(tensor.shape, tensor.stride()) * tensor.element_size() for tensor in (one, other)]
    return _meet(begins, lengths) and not _side_by_side(one, other)


def _extent(shape: tuple[int, ...], stride: tuple[int, ...]) -> int:
    return 1 + sum((size - 1) * step for size, step in zip(shape, stride, strict=True))


def _meet(begins: list[int], lengths: list[int]) -> bool:
    return begins[0] < begins[1] + lengths[1] and begins[1] < begins[0] + lengths[0]


def _side_by_side(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.dim() < 2 or one.stride() != other.stride() or one.dtype != other.dtype:
        return False
    pitch = one.stride(0)
    widths = [_extent(tensor.shape[1:], tensor.stride()[1:]) for tensor in (one, other)]
    columns = [tensor.storage_offset() % pitch if pitch else 0 for tensor in (one, other)]
    within = all(column + width <= pitch for column, width in zip(columns, widths, strict=True))
    return within and not _meet(columns, widths)
