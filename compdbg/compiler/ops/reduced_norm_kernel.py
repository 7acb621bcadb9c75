"""The sum over ranks with all that follows it, as one Triton kernel: a row a program.

One-shot: a program writes its row into the memory of each peer, and sums what the peers wrote into
its own (`symmetric` says how it knows what has come). Two-shot, where that moves less: each row has a
rank that gets and sums it, and sends the sum to the others. Ranks add in float32 and in one order, so
that they agree to the bit.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from compdbg.compiler.ops.quant_kernel import quantized_tile


@triton.jit  # type: ignore[untyped-decorator]
def reduced_norm(  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917
    x, residual, weight, scale, out, scales, total, places, turns, x_stride, residual_stride, eps,
    RANK: tl.constexpr, RANKS: tl.constexpr, ROWS: tl.constexpr, STRIDE: tl.constexpr,
    EMPTY: tl.constexpr, TWO_SHOT: tl.constexpr,
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
    bits = _sent(own, EMPTY)
    first = (turn * ROWS + row) * ((RANKS - 1) * STRIDE)
    summing = row % RANKS
    if TWO_SHOT:
        _send_to_one(places, summing, first, column, bits, inside, RANK, RANKS, STRIDE)
    else:
        _send(places, first, column, bits, inside, RANK, RANKS, STRIDE)

    # All that needs no peer, while the rows travel.
    other = tl.load(residual + row * residual_stride + column, mask=inside, other=0.0).to(tl.float32)
    by = tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)
    here = _at(places[RANK], bits.dtype)
    before = here + ((turn + 2) % 3 * ROWS + row) * ((RANKS - 1) * STRIDE)
    for sender in tl.static_range(RANKS - 1):
        nothing = tl.full((GROUPS, COLUMNS), EMPTY, bits.dtype)
        tl.store(before + sender * STRIDE + column, nothing, mask=inside)

    here += first
    if TWO_SHOT:
        if summing == RANK:
            wide = _sum(here, column, inside, bits, dtype, RANK, RANKS, STRIDE, EMPTY, WIDTH)
            bits = _sent(wide.to(dtype), EMPTY)
            _send(places, first, column, bits, inside, RANK, RANKS, STRIDE)
        else:
            place = here + (summing - (summing > RANK).to(tl.int64)) * STRIDE
            bits = _come(place, column, inside, EMPTY, WIDTH)
        wide = bits.to(dtype, bitcast=True).to(tl.float32)
    else:
        wide = _sum(here, column, inside, bits, dtype, RANK, RANKS, STRIDE, EMPTY, WIDTH)
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


@triton.jit  # type: ignore[untyped-decorator]
def _at(address, bits: tl.constexpr) -> Any:  # type: ignore[no-untyped-def]
    """A pointer to where a rank's places start, which allows whole lines to be moved at once."""
    return tl.multiple_of(address.to(tl.pointer_type(bits)), 128)


@triton.jit  # type: ignore[untyped-decorator]
def _sent(values, EMPTY: tl.constexpr) -> Any:  # type: ignore[no-untyped-def]
    """Values as they travel: none is what stands in an empty place."""
    as_bits: tl.constexpr = tl.int32 if values.dtype == tl.float32 else tl.int16
    bits = values.to(as_bits, bitcast=True)
    return tl.where(bits == EMPTY, 0, bits).to(as_bits)


@triton.jit  # type: ignore[untyped-decorator]
def _send(  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917
    places, first, column, bits, inside, RANK: tl.constexpr, RANKS: tl.constexpr, STRIDE: tl.constexpr
) -> Any:
    """To this rank's place at each of its peers."""
    for peer in tl.static_range(RANKS):
        if peer != RANK:
            there = _at(places[peer], bits.dtype) + first + (RANK - (peer < RANK)) * STRIDE
            tl.store(there + column, bits, mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def _send_to_one(  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917
    places, one, first, column, bits, inside, RANK: tl.constexpr, RANKS: tl.constexpr, STRIDE: tl.constexpr
) -> Any:
    """To this rank's place at the peer that sums the row, unless that is this rank."""
    for peer in tl.static_range(RANKS):
        if peer != RANK:
            there = _at(places[peer], bits.dtype) + first + (RANK - (peer < RANK)) * STRIDE
            tl.store(there + column, bits, mask=inside & (one + 0 * column == peer))


@triton.jit  # type: ignore[untyped-decorator]
def _come(  # type: ignore[no-untyped-def]
    place, column, inside, EMPTY: tl.constexpr, WIDTH: tl.constexpr
) -> Any:
    """What a peer sends, once all of it is there: first one value of it, so that waiting costs little."""
    while tl.load(place + WIDTH - 1, volatile=True) == EMPTY:
        pass
    bits = tl.load(place + column, mask=inside, other=0, volatile=True)
    while tl.max(tl.max((bits == EMPTY).to(tl.int32), 1), 0) != 0:
        bits = tl.load(place + column, mask=inside, other=0, volatile=True)
    return bits


@triton.jit  # type: ignore[untyped-decorator]
def _sum(  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917
    here, column, inside, own, dtype: tl.constexpr, RANK: tl.constexpr, RANKS: tl.constexpr,
    STRIDE: tl.constexpr, EMPTY: tl.constexpr, WIDTH: tl.constexpr,
) -> Any:  # fmt: skip
    """Of what all ranks sent, in the order of ranks."""
    wide = tl.zeros(own.shape, tl.float32)
    for peer in tl.static_range(RANKS):
        part = own
        if peer != RANK:
            place = here + (peer - (peer > RANK)) * STRIDE
            part = _come(place, column, inside, EMPTY, WIDTH)
        wide += part.to(dtype, bitcast=True).to(tl.float32)
    return wide
