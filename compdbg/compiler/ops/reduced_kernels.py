"""The sum over ranks with all that follows it, as one Triton kernel and one launch: a row a program.

One-shot: a program writes its row into the memory of each peer, and sums what the peers wrote into
its own (`symmetric` says how it knows what has come). Ranks add in float32 and in one order, so that
they agree to the bit. Where there is no such memory, the group's own all-reduce comes before one kernel.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from compdbg.compiler.ops import reduced_norms
from compdbg.compiler.ops.norm_kernels import DYNAMIC, NO_QUANT, STATIC, rows
from compdbg.compiler.ops.norms import WEIGHT_IN_FLOAT
from compdbg.compiler.ops.quant import LIMITS, SMALLEST_SCALE, fake_quantized, fake_scales
from compdbg.compiler.ops.quant_kernel import quantized_tile, tile_of
from compdbg.compiler.ops.symmetric import EMPTY, Workspace, workspace


def all_reduce_add_rms_norm(
    x: Tensor, residual: Tensor, weight: Tensor, eps: float, style: int, ranks: str
) -> tuple[Tensor, Tensor]:
    space = workspace(x, ranks)
    if space is None:
        return reduced_norms.in_two(x, residual, weight, eps, style, ranks)
    out, total = x.new_empty(x.shape), x.new_empty(x.shape)
    launch(space, x, residual, weight, None, out, None, total, eps, style, 0)
    return out, total


def all_reduce_add_rms_norm_static_quant(  # noqa: PLR0913, PLR0917
    x: Tensor,
    residual: Tensor,
    weight: Tensor,
    scale: Tensor,
    eps: float,
    style: int,
    dtype: torch.dtype,
    ranks: str,
) -> tuple[Tensor, Tensor]:
    space = workspace(x, ranks)
    if space is None:
        return reduced_norms.static_in_two(x, residual, weight, scale, eps, style, dtype, ranks)
    out, total = fake_quantized(x, dtype), x.new_empty(x.shape)
    launch(space, x, residual, weight, scale, out, None, total, eps, style, 0)
    return out, total


def all_reduce_add_rms_norm_dynamic_quant(  # noqa: PLR0913, PLR0917
    x: Tensor,
    residual: Tensor,
    weight: Tensor,
    eps: float,
    style: int,
    group: int,
    dtype: torch.dtype,
    ranks: str,
) -> tuple[Tensor, Tensor, Tensor]:
    space = workspace(x, ranks)
    if space is None:
        return reduced_norms.dynamic_in_two(x, residual, weight, eps, style, group, dtype, ranks)
    out, scales, total = fake_quantized(x, dtype), fake_scales(x, group), x.new_empty(x.shape)
    launch(space, x, residual, weight, None, out, scales, total, eps, style, group)
    return out, scales, total


class How(NamedTuple):
    """What does not change the result: warps a program, and whether it waits for one value before all."""

    warps: int
    one_first: bool


def how(count: int, width_bytes: int) -> How:
    """The quickest for so many rows: where many programs wait, they leave memory to those that don't."""
    return How(warps=max(4, min(16, width_bytes // 1024)), one_first=count * width_bytes > 1 << 20)


def launch(  # noqa: PLR0913, PLR0917
    space: Workspace,
    x: Tensor,
    residual: Tensor,
    weight: Tensor,
    scale: Tensor | None,
    out: Tensor,
    scales: Tensor | None,
    total: Tensor,
    eps: float,
    style: int,
    group: int,
    by: How | None = None,
) -> None:
    """Sum the rows of all ranks, and write what follows to `out`, `scales` and `total`."""
    x, residual = rows(x), rows(residual)
    count, width = x.shape
    if not count:
        return
    columns, groups = tile_of(width, group)
    limits = LIMITS.get(out.dtype)
    by = by or how(count, width * x.dtype.itemsize)
    _reduced_norm[(count,)](
        x, residual, weight.contiguous(), scale, out, scales, total, space.places, space.turns,
        x.stride(0), residual.stride(0), eps,
        RANK=space.rank, RANKS=space.ranks, ROWS=space.rows, STRIDE=space.stride // x.dtype.itemsize,
        EMPTY=EMPTY[x.dtype], ONE_FIRST=by.one_first,
        WIDTH=width, COLUMNS=columns, GROUPS=groups, WEIGHT_IN_FLOAT=style == WEIGHT_IN_FLOAT,
        QUANT=NO_QUANT if limits is None else STATIC if scale is not None else DYNAMIC,
        LOW=limits.low if limits else 0, HIGH=limits.high if limits else 0,
        ROUNDED=bool(limits and limits.rounded), SMALLEST=SMALLEST_SCALE,
        num_warps=by.warps,
    )  # fmt: skip


@triton.jit  # type: ignore[untyped-decorator]
def _at(address, bits: tl.constexpr) -> Any:  # type: ignore[no-untyped-def]
    """A pointer to where a rank's places start, which allows whole lines to be moved at once."""
    return tl.multiple_of(address.to(tl.pointer_type(bits)), 128)


@triton.jit  # type: ignore[untyped-decorator]
def _come(place, column, inside, EMPTY: tl.constexpr, LAST: tl.constexpr, ONE_FIRST: tl.constexpr) -> Any:  # type: ignore[no-untyped-def]
    """A row that a peer sends, once all of it is there."""
    if ONE_FIRST:
        while tl.load(place + LAST, volatile=True) == EMPTY:
            pass
    row = tl.load(place + column, mask=inside, other=0, volatile=True)
    while tl.max(tl.max((row == EMPTY).to(tl.int32), 1), 0) != 0:
        row = tl.load(place + column, mask=inside, other=0, volatile=True)
    return row


@triton.jit  # type: ignore[untyped-decorator]
def _reduced_norm(  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917
    x, residual, weight, scale, out, scales, total, places, turns, x_stride, residual_stride, eps,
    RANK: tl.constexpr, RANKS: tl.constexpr, ROWS: tl.constexpr, STRIDE: tl.constexpr,
    EMPTY: tl.constexpr, ONE_FIRST: tl.constexpr,
    WIDTH: tl.constexpr, COLUMNS: tl.constexpr, GROUPS: tl.constexpr, WEIGHT_IN_FLOAT: tl.constexpr,
    QUANT: tl.constexpr, LOW: tl.constexpr, HIGH: tl.constexpr,
    ROUNDED: tl.constexpr, SMALLEST: tl.constexpr,
) -> Any:  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, GROUPS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    inside = column < WIDTH
    turn = tl.load(turns + row)
    own = tl.load(x + row * x_stride + column, mask=inside, other=0.0)
    dtype: tl.constexpr = own.dtype
    as_bits: tl.constexpr = tl.int32 if dtype == tl.float32 else tl.int16
    bits = own.to(as_bits, bitcast=True)
    bits = tl.where(bits == EMPTY, 0, bits).to(as_bits)
    first = (turn * ROWS + row) * ((RANKS - 1) * STRIDE)
    for peer in tl.static_range(RANKS):
        if peer != RANK:
            there = _at(places[peer], as_bits) + first + (RANK - (peer < RANK)) * STRIDE
            tl.store(there + column, bits, mask=inside)

    # All that needs no peer, while the rows travel.
    other = tl.load(residual + row * residual_stride + column, mask=inside, other=0.0).to(tl.float32)
    by = tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)
    here = _at(places[RANK], as_bits)
    before = ((turn + 2) % 3 * ROWS + row) * ((RANKS - 1) * STRIDE)
    for sender in tl.static_range(RANKS - 1):
        nothing = tl.full((GROUPS, COLUMNS), EMPTY, as_bits)
        tl.store(here + before + sender * STRIDE + column, nothing, mask=inside)

    wide = tl.zeros((GROUPS, COLUMNS), tl.float32)
    for peer in tl.static_range(RANKS):
        part = bits
        if peer != RANK:
            place = here + first + (peer - (peer > RANK)) * STRIDE
            part = _come(place, column, inside, EMPTY, WIDTH - 1, ONE_FIRST)
        wide += part.to(dtype, bitcast=True).to(tl.float32)
    value = (wide + other).to(dtype)
    tl.store(total + row * WIDTH + column, value, mask=inside)
    wide = value.to(tl.float32)
    mean = tl.sum(tl.sum(wide * wide, 1), 0) / WIDTH
    wide = wide * (1.0 / tl.sqrt_rn(mean + eps))
    if not WEIGHT_IN_FLOAT:
        wide = wide.to(dtype).to(tl.float32)
    result = (wide * by).to(dtype)
    if QUANT == 0:
        tl.store(out + row * WIDTH + column, result, mask=inside)
    else:
        quantized_tile(
            result.to(tl.float32), row, column, inside, scale, out, scales,
            WIDTH, COLUMNS, GROUPS, QUANT, LOW, HIGH, ROUNDED, SMALLEST,
        )  # fmt: skip
    tl.debug_barrier()
    tl.store(turns + row, (turn + 1) % 3)
