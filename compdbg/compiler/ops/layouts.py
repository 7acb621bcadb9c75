"""How a launch is laid out: what one program does, and with how many warps.

What a program does besides reading and writing, it does per thread. Of many rows, a thread that has
to wait for its row's others holds 32 values of each operand, and otherwise 16: programs that fit on a
processor together keep it reading. Of few rows, which is decoding, there is nothing to overlap with:
more threads, and less for each. Measured on an H200 (`benchmarks/kernel_layouts.py`).
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import torch
import triton

WARP = 32
MANY = 32
"""Values of a thread that waits for its row's others, where there are rows for all processors."""
FEW = 16
"""The same where there are not; and of one that waits for none."""
MOST_WARPS = 16
BLOCK = 2048
"""Columns of a program that need not see its whole row."""
SMALL_BLOCK = 512


class Layout(NamedTuple):
    """A program's part: rows of it, columns of each (all, or a block), with so many warps."""

    rows: int
    columns: int
    warps: int


@functools.cache
def processors(device: int | None) -> int:
    """Of a GPU; of Triton's interpreter, one."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device is not None else 1


def whole_rows(rows: int, width: int, device: torch.device) -> Layout:
    """For what needs all of a row before it can write any. Narrow rows go several to a program."""
    columns = triton.next_power_of_2(width)
    many = rows > 4 * processors(device.index)
    together = max(1, BLOCK // 2 // columns) if many else 1
    return Layout(together, columns, _warps(together * columns, MANY if many else FEW))


def blocks_of_rows(rows: int, width: int, device: torch.device) -> Layout:
    """For what needs no more of a row than what it writes."""
    many = rows * width > 4 * processors(device.index) * BLOCK
    columns = min(triton.next_power_of_2(width), BLOCK if many else SMALL_BLOCK)
    return Layout(1, columns, _warps(columns, FEW if many else FEW // 2))


def blocks_of_heads(tokens: int, heads: int, half: int, device: torch.device) -> Layout:
    """For pairs of columns of heads: rows are heads, columns pairs, two values of a thread each."""
    many = tokens * heads * half > 4 * processors(device.index) * BLOCK
    together = max(1, (BLOCK // 2 if many else SMALL_BLOCK // 2) // half)
    together = min(together, triton.next_power_of_2(heads))
    return Layout(together, half, _warps(together * half, FEW if many else FEW // 2))


def _warps(values: int, each: int) -> int:
    return max(1, min(MOST_WARPS, values // (WARP * each)))
