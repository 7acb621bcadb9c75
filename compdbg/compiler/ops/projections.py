"""Several projections of one input as one product, with weights that are packed once.

The packed weight is a copy. It is made on the first call, ahead of any capture. A weight that has been
written to since is copied into it again, and for one that was replaced there is another: on the next
call that runs this operator, which replaying a capture does not.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from compdbg.compiler.ops.define import operator


class _Packed(NamedTuple):
    weights: tuple[weakref.ref[Tensor], ...]
    versions: tuple[int, ...]
    joined: Tensor


_packed: dict[tuple[int, ...], _Packed] = {}


def packed(weights: Sequence[Tensor]) -> Tensor:
    """The weights as rows of one; the same tensor as long as they are the same tensors in the same place."""
    key = tuple(weight.data_ptr() for weight in weights)
    versions = tuple(map(_version, weights))
    found = _packed.get(key)
    if found is None or any(known() is not each for known, each in zip(found.weights, weights, strict=True)):
        found = _packed[key] = _Packed(_watched(weights, key), versions, _joined(weights))
    elif found.versions != versions:
        _joined(weights, found.joined)  # where it is: captures read it there
        _packed[key] = found._replace(versions=versions)
    return found.joined


def _version(weight: Tensor) -> int:
    """How often a weight was written to, as far as torch counts that."""
    return 0 if weight.is_inference() else weight._version


def _watched(weights: Sequence[Tensor], key: tuple[int, ...]) -> tuple[weakref.ref[Tensor], ...]:
    """Another tensor may come to lie where one of them was, written to as often: with each goes the copy."""
    return tuple(weakref.ref(weight, lambda _: _packed.pop(key, None)) for weight in weights)


def _joined(weights: Sequence[Tensor], into: Tensor | None = None) -> Tensor:
    """One tensor of all rows; of floats of 8 bits by their bits, since not every device joins those."""
    dtype = weights[0].dtype
    bits = torch.uint8 if dtype.itemsize == 1 else dtype
    with torch.inference_mode(False), torch.no_grad():  # else it could be written to in that mode only
        parts = tuple(weight.view(bits) for weight in weights)
        return torch.cat(parts, out=None if into is None else into.view(bits)).view(dtype)


def _project(x: Tensor, weights: Sequence[Tensor]) -> Tensor:
    return x @ packed(weights).t()


merged_projection = operator(
    "merged_projection(Tensor x, Tensor[] weights) -> Tensor",
    _project,
    lambda x, weights: x.new_empty((*x.shape[:-1], sum(weight.shape[0] for weight in weights))),
)
