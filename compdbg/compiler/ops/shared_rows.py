"""Rows shared out to ranks: each has as many as the next, the last ones padded with zeros.

How many rows there are need not be known, nor be a multiple of the number of ranks (`count`). Which
share is whose is decided when an operator runs: graphs are equal on all ranks.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import functional as F

from compdbg.compiler.ops.define import operator

_functional = torch.ops._c10d_functional


def padded(x: Tensor, rows: int) -> Tensor:
    """`x`, with rows of zeros up to so many; a tensor of its own where some are added."""
    missing = rows - x.shape[0]
    return F.pad(x, (*(0 for _ in range(2 * (x.dim() - 1))), 0, missing)) if missing else x


def share(rows: int, count: int) -> int:
    """How many rows each of so many ranks has."""
    return (rows + count - 1) // count


def _reduce_scatter(x: Tensor, count: int, ranks: str) -> Tensor:
    if count == 1:
        return x.clone(memory_format=torch.contiguous_format)
    whole = padded(x, share(x.shape[0], count) * count).contiguous()
    return _functional.wait_tensor(_functional.reduce_scatter_tensor(whole, "sum", count, ranks))


def _own(x: Tensor, count: int, ranks: str) -> Tensor:
    rank = dist.get_rank(torch.distributed.distributed_c10d._resolve_process_group(ranks))
    rows = share(x.shape[0], count)
    return padded(x[rank * rows : (rank + 1) * rows], rows).clone(memory_format=torch.contiguous_format)


def _all_gather(x: Tensor, rows: int, count: int, ranks: str) -> Tensor:
    if count == 1:
        return x[:rows].clone(memory_format=torch.contiguous_format)
    plain = x.contiguous()
    sent = plain.view(torch.uint8) if x.dtype.itemsize == 1 else plain  # gloo knows no floats of 8 bits
    whole = _functional.wait_tensor(_functional.all_gather_into_tensor(sent, count, ranks))
    return whole.view(x.dtype)[:rows]


reduce_scatter_rows = operator(
    "reduce_scatter_rows(Tensor x, int count, str ranks) -> Tensor",
    _reduce_scatter,
    lambda x, count, ranks: x.new_empty((share(x.shape[0], count), *x.shape[1:])),
)
own_rows = operator(
    "own_rows(Tensor x, int count, str ranks) -> Tensor",
    _own,
    lambda x, count, ranks: x.new_empty((share(x.shape[0], count), *x.shape[1:])),
)
all_gather_rows = operator(
    "all_gather_rows(Tensor x, SymInt rows, int count, str ranks) -> Tensor",
    _all_gather,
    lambda x, rows, count, ranks: x.new_empty((rows, *x.shape[1:])),
)
