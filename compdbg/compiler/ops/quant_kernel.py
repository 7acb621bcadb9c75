"""The end of every kernel that quantises: lines of a tile, scaled and stored.

A line is what shares a scale: a row, or a group of a row's columns.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

SATURATES: tl.constexpr = tl.constexpr(torch.version.hip is None and not triton.knobs.runtime.interpret)
"""Whether a cast to a float of 8 bits gives the largest for what is larger; NaN stays NaN."""


def lines_of(columns: int, group: int) -> tuple[int, int]:
    """Columns of a line, and lines of a row, of which `columns` are in the tile. Both are powers of two."""
    if not group:
        return columns, 1
    if group & (group - 1):
        raise ValueError(f"a group of {group} columns: only powers of two are supported")
    return group, max(1, columns // group)


def tile_of(width: int, group: int) -> tuple[int, int]:
    """The same for a tile that holds a row."""
    return lines_of(triton.next_power_of_2(width), group)


@triton.jit  # type: ignore[untyped-decorator]
def rounded_product(x, by) -> Any:  # type: ignore[no-untyped-def]
    """Of two tensors of one dtype, rounded to it: two products an instruction, where they are halves."""
    return (x.to(tl.float32) * by.to(tl.float32)).to(x.dtype)


@triton.jit  # type: ignore[untyped-decorator]
def quantized_lines(  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917
    wide, row, first, column, inside, there, scale, out, scales,
    WIDTH: tl.constexpr, COLUMNS: tl.constexpr, GROUPED: tl.constexpr, QUANT: tl.constexpr,
    LOW: tl.constexpr, HIGH: tl.constexpr, ROUNDED: tl.constexpr, SMALLEST: tl.constexpr,
) -> Any:  # fmt: skip
    """`row`, each line's `first` column, and whether it is `there` are (lines, 1); `wide` is 0 outside."""
    if QUANT == 1:
        by = tl.load(scale).to(tl.float32) + tl.zeros((1, 1), tl.float32)
    else:
        largest = tl.max(tl.abs(wide), 1, keep_dims=True)
        by = tl.maximum(tl.div_rn(largest, tl.full(largest.shape, HIGH, tl.float32)), SMALLEST)
        count: tl.constexpr = WIDTH // COLUMNS if GROUPED else 1
        tl.store(scales + row * count + first // COLUMNS, by, mask=there)
    scaled = wide * tl.div_rn(tl.full(by.shape, 1.0, tl.float32), by)
    if ROUNDED:
        # To the nearest, ties to even: at this size a float32 has no bits for fractions.
        scaled = tl.minimum(tl.maximum(scaled, LOW), HIGH)
        scaled = (scaled + 12582912.0) - 12582912.0
    elif not SATURATES:
        scaled = tl.maximum(scaled, LOW, propagate_nan=tl.PropagateNan.ALL)
        scaled = tl.minimum(scaled, HIGH, propagate_nan=tl.PropagateNan.ALL)
    tl.store(out + row * WIDTH + column, scaled.to(out.dtype.element_ty), mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def quantized_tile(  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917
    wide, row, column, inside, scale, out, scales,
    WIDTH: tl.constexpr, COLUMNS: tl.constexpr, GROUPS: tl.constexpr, QUANT: tl.constexpr,
    LOW: tl.constexpr, HIGH: tl.constexpr, ROUNDED: tl.constexpr, SMALLEST: tl.constexpr,
) -> Any:  # fmt: skip
    """The same for the lines of one whole row."""
    first = tl.arange(0, GROUPS)[:, None] * COLUMNS
    quantized_lines(
        wide, row, first, column, inside, first < WIDTH, scale, out, scales,
        WIDTH, COLUMNS, GROUPS > 1, QUANT, LOW, HIGH, ROUNDED, SMALLEST,
    )  # fmt: skip
