"""How a launch is laid out: what one program does, and with how many warps.

Of many rows, each thread holds 16 values of each operand: four loads of 16 bytes are under way at
once, and enough programs fit on a processor to keep it reading. Of few rows, which is decoding,
there is nothing to overlap with: twice the threads, and half the way for each.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import torch
import triton

WARP = 32
MANY = 16
"""Values of a thread where there are rows for all processors, several times over."""
FEW = 8
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
    return Layout(1, columns, _warps(columns, MANY if many else FEW))


def blocks_of_heads(tokens: int, heads: int, half: int, device: torch.device) -> Layout:
    """For pairs of columns of heads: rows are heads, columns pairs, two values of a thread each."""
    many = tokens * heads * half > 4 * processors(device.index) * BLOCK
    together = max(1, (SMALL_BLOCK if many else SMALL_BLOCK // 2) // half)
    together = min(together, triton.next_power_of_2(heads))
    return Layout(together, half, _warps(together * half, FEW))


def _warps(values: int, each: int) -> int:
    return max(1, min(MOST_WARPS, values // (WARP * each)))
