"""A graph input at an address that stays: the caller's rows are copied in, added rows are filled."""

from __future__ import annotations

from typing import Literal

import torch

from compdbg.compiler.arena import Arena
from compdbg.compiler.dynamic_spec import BatchDim

Integers = Literal["zero", "as the last row"]
"""What integers in poisoned rows are: they can't show by themselves, but say where a row goes."""


class Unpaddable(Exception):
    """No buffer can stand for this input at other sizes; the message says why."""


class StaticInput:
    """The buffer of one input, made once for the largest size; sizes share its first bytes.

    `sample` is the first call's tensor, of batch size `n`: the compiled code is built for the way
    its strides are, so every size is laid out in that way. Without `dims` the input has one shape.
    """

    def __init__(
        self, index: int, dims: tuple[BatchDim, ...], sample: torch.Tensor, n: int, arena: Arena
    ) -> None:
        self.index = index
        self.dims = dims
        self.dtype = sample.dtype
        self.device = sample.device
        self._shape = tuple(sample.shape)
        self._strides = tuple(sample.stride())
        self._order = _stride_order(sample)
        self._arena = arena
        self._filled = 0
        self._rows_first = len(dims) == 1 and self._order is not None and self._order[:1] == [dims[0].dim]
        if self._order is None and not self._outermost(n):
            raise Unpaddable(f"input {index} has strides {self._strides}, which depend on its size")

    def view(self, n: int) -> torch.Tensor:
        """The input as the compiled code is to see it at batch size `n`."""
        shape = list(self._shape)
        for batch in self.dims:
            shape[batch.dim] = batch.multiple * n
        strides = self._strides if self._order is None else _dense(shape, self._order)
        return self._arena.shaped(self.index, tuple(shape), strides, self.dtype, self.device)

    def rows(self, view: torch.Tensor, n: int) -> torch.Tensor:
        """The part of `view` that holds the caller's rows."""
        for batch in self.dims:
            view = view.narrow(batch.dim, 0, batch.multiple * n)
        return view

    def clear_rest(self, view: torch.Tensor, n: int, padded: int) -> None:
        """Zeros in the rows `n` to `padded`, which may hold an earlier, larger call's."""
        if not self._rows_first:
            for rest in self._rest(view, n, padded):
                rest.zero_()
            return
        if self._filled > n:
            self._rest(view, n, padded)[0].zero_()
        self._filled = n if self._filled <= padded else self._filled

    def poison_rest(self, view: torch.Tensor, n: int, padded: int, integers: Integers) -> None:
        """Rows `n` to `padded` that show wherever they get to: NaN, beside integers as wanted."""
        for batch, rest in zip(self.dims, self._rest(view, n, padded), strict=True):
            if view.dtype.is_floating_point or view.dtype.is_complex:
                rest.fill_(float("nan"))
            elif integers == "zero":
                rest.zero_()
            else:
                last = view.narrow(batch.dim, batch.multiple * n - 1, 1)
                rest.copy_(last.expand(rest.shape))
        self._filled = max(self._filled, padded)

    def full(self, n: int) -> None:
        """Rows up to `n` may hold anything now: a call of that size has filled them, or the graph has."""
        self._filled = max(self._filled, n)

    def _rest(self, view: torch.Tensor, n: int, padded: int) -> list[torch.Tensor]:
        return [
            view.narrow(batch.dim, batch.multiple * n, batch.multiple * (padded - n)) for batch in self.dims
        ]

    def _outermost(self, n: int) -> bool:
        """Whether only the size of the outermost dimension depends on the batch size."""
        if not self.dims:
            return True
        outer = self._strides[self.dims[0].dim]
        return len(self.dims) == 1 and all(
            stride <= outer for stride, size in zip(self._strides, self._shape, strict=True) if size > 1
        )


def _stride_order(tensor: torch.Tensor) -> list[int] | None:
    """Dimensions from the outermost in, where the tensor is dense; None where it has gaps or repeats."""
    if tensor.is_contiguous():
        return list(range(tensor.dim()))
    order = sorted(range(tensor.dim()), key=lambda d: -tensor.stride(d))
    return order if _dense(list(tensor.shape), order) == tuple(tensor.stride()) else None


def _dense(shape: list[int], order: list[int]) -> tuple[int, ...]:
    strides = [0] * len(shape)
    step = 1
    for dim in reversed(order):
        strides[dim] = step
        step *= max(shape[dim], 1)
    return tuple(strides)
