"""The end of every kernel that quantises: a row as a tile of (groups, columns), scaled and stored."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl


def tile_of(width: int, group: int) -> tuple[int, int]:
    """Columns and groups of the tile that holds a row: powers of two. Without groups, one of all columns."""
    if not group:
        return triton.next_power_of_2(width), 1
    if group & (group - 1):
        raise ValueError(f"a group of {group} columns: only powers of two are supported")
    return group, triton.next_power_of_2(width // group)


@triton.jit  # type: ignore[untyped-decorator]
def quantized_tile(  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917
    wide, row, column, inside, scale, out, scales,
    WIDTH: tl.constexpr, COLUMNS: tl.constexpr, GROUPS: tl.constexpr, QUANT: tl.constexpr,
    LOW: tl.constexpr, HIGH: tl.constexpr, ROUNDED: tl.constexpr, SMALLEST: tl.constexpr,
) -> Any:  # fmt: skip
    if QUANT == 1:
        scaled = tl.div_rn(wide, tl.load(scale).to(tl.float32) + tl.zeros_like(wide))
    else:
        largest = tl.max(tl.abs(wide), 1)
        by = tl.maximum(tl.div_rn(largest, tl.zeros_like(largest) + HIGH), SMALLEST)
        group = tl.arange(0, GROUPS)
        count: tl.constexpr = 1 if GROUPS == 1 else WIDTH // COLUMNS
        tl.store(scales + row * count + group, by, mask=group < count)
        scaled = tl.div_rn(wide, by[:, None] + tl.zeros_like(wide))
    scaled = tl.minimum(tl.maximum(scaled, LOW), HIGH)
    if ROUNDED:
        # To the nearest, ties to even: at this size a float32 has no bits for fractions.
        scaled = (scaled + 12582912.0) - 12582912.0
    tl.store(out + row * WIDTH + column, scaled.to(out.dtype.element_ty), mask=inside)
