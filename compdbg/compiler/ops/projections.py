"""Several projections of one input as one product, with weights that are packed once.

The packed weight is a copy. It is made on the first call, ahead of any capture, and again when a
weight has been written to or replaced since; what a capture has taken up stays as it was.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from compdbg.compiler.ops.define import operator


class _Packed(NamedTuple):
    states: tuple[tuple[int, int], ...]
    owner: weakref.ref[Tensor]
    weight: Tensor


_packed: dict[tuple[int, ...], _Packed] = {}


def _state(weight: Tensor) -> tuple[int, int]:
    """Where a weight is, and how often it was written to, as far as torch counts that."""
    return weight.data_ptr(), 0 if weight.is_inference() else weight._version


def packed(weights: Sequence[Tensor]) -> Tensor:
    """The weights as rows of one; the same tensor until one of them changes."""
    states = tuple(map(_state, weights))
    key = tuple(place for place, _ in states)
    found = _packed.get(key)
    if found is None or found.states != states or found.owner() is None:
        owner = weakref.ref(weights[0], lambda _: _packed.pop(key, None))
        found = _packed[key] = _Packed(states, owner, _joined(weights))
    return found.weight


def _joined(weights: Sequence[Tensor]) -> Tensor:
    """One tensor of all rows; of floats of 8 bits by their bits, since not every device joins those."""
    dtype = weights[0].dtype
    if dtype.itemsize > 1:
        return torch.cat(tuple(weights))
    return torch.cat([weight.view(torch.uint8) for weight in weights]).view(dtype)


def _project(x: Tensor, weights: Sequence[Tensor]) -> Tensor:
    return x @ packed(weights).t()


merged_projection = operator(
    "merged_projection(Tensor x, Tensor[] weights) -> Tensor",
    _project,
    lambda x, weights: x.new_empty((*x.shape[:-1], sum(weight.shape[0] for weight in weights))),
)
