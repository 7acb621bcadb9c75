"""Products beside collectives on a GPU: torch's symmetric memory, chunk by chunk."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed._symmetric_memory  # registers the operators used here
from torch import Tensor

from compdbg.compiler.ops.shared_rows import padded, share


def mm_reduce_scatter(x: Tensor, weight: Tensor, count: int, ranks: str) -> Tensor:
    """The product's chunks go to their ranks while the next are worked out."""
    whole = padded(x, share(x.shape[0], count) * count).contiguous()
    summed: Tensor = torch.ops.symm_mem.fused_matmul_reduce_scatter(whole, weight, "sum", 0, ranks)
    return summed


def all_gather_mm(x: Tensor, weights: Sequence[Tensor], rows: int, count: int, ranks: str) -> list[Tensor]:
    """Chunks are multiplied as they arrive."""
    whole, products = torch.ops.symm_mem.fused_all_gather_matmul(x.contiguous(), list(weights), 0, ranks)
    return [whole[:rows], *(product[:rows] for product in products)]
