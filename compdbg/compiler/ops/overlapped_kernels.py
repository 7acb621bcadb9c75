"""Products beside collectives on a GPU: torch's symmetric memory, chunk by chunk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.distributed import _symmetric_memory as symmetric

from compdbg.compiler.ops.overlapped import OVERLAP_FROM, all_gather_then_mm, mm_then_reduce_scatter
from compdbg.compiler.ops.shared_rows import padded, share


def mm_reduce_scatter(x: Tensor, weight: Tensor, count: int, ranks: str) -> Tensor:
    """The product's chunks go to their ranks while the next are worked out."""
    if x.shape[0] < OVERLAP_FROM:
        return mm_then_reduce_scatter(x, weight, count, ranks)
    whole = padded(x, share(x.shape[0], count) * count).contiguous()
    _keep_workspace(ranks, 2 * whole.shape[0] // count * weight.shape[1] * whole.dtype.itemsize)
    summed: Tensor = torch.ops.symm_mem.fused_matmul_reduce_scatter(whole, weight, "sum", 0, ranks)
    return summed


def all_gather_mm(x: Tensor, weights: Sequence[Tensor], rows: int, count: int, ranks: str) -> list[Tensor]:
    """Chunks are multiplied as they arrive."""
    if rows < OVERLAP_FROM:
        return all_gather_then_mm(x, weights, rows, count, ranks)
    _keep_workspace(ranks, x.numel() * x.dtype.itemsize)
    whole, products = torch.ops.symm_mem.fused_all_gather_matmul(x.contiguous(), list(weights), 0, ranks)
    return [whole[:rows], *(product[:rows] for product in products)]


_kept: dict[tuple[str, int], Any] = {}


def _keep_workspace(ranks: str, size: int) -> None:
    """Let torch's workspace be of that size, and live on when it grows: captured graphs point to it."""
    workspace = symmetric.get_symm_mem_workspace(ranks, size)
    _kept[ranks, workspace.buffer_size] = workspace
