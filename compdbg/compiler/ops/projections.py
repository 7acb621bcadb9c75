"""Several projections of one input as one product, with weights that are packed once.

The packed weight is a copy. It is made on the first call, ahead of any capture, and stays where it is:
captures read it there. A weight that has been written to since, or given other memory, is copied into it
again on the next call that runs this operator, which replaying a capture does not. Torch does not count
all writes: after others, `repack_weights` does the same at once.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from compdbg.compiler.ops.define import operator


class _Packed(NamedTuple):
    weights: tuple[weakref.ref[Tensor], ...]
    joined: Tensor
    states: list[tuple[int, int, int]]
    """What `joined` was copied from."""
    storages: list[StorageWeakRef]
    """Kept, so that no other storage gets the identity of one in `states`."""


_packed: dict[tuple[int, ...], _Packed] = {}


def packed(weights: Sequence[Tensor]) -> Tensor:
    """The weights as rows of one; the same tensor as long as they are the same tensors."""
    key = tuple(map(id, weights))
    found = _packed.get(key)
    if found is not None and found.states == list(map(_state, weights)):
        return found.joined
    if found is None or not _fits(found, weights):
        found = _packed[key] = _Packed(_watched(weights, key), _joined(weights), [], [])
    else:
        _joined(weights, found.joined)
    _note(found, weights)
    return found.joined


def repack_weights() -> None:
    """Bring all packed weights up to date, captures' too, after writes that torch does not count.

    Those are writes to `weight.data`, writes to weights that were made in inference mode, and writes by
    compiled code or kernels of one's own.
    """
    for found in list(_packed.values()):
        weights = [weight for known in found.weights if (weight := known()) is not None]
        if len(weights) == len(found.weights) and _fits(found, weights):
            _joined(weights, found.joined)
            _note(found, weights)


def _fits(found: _Packed, weights: Sequence[Tensor]) -> bool:
    """Whether weights that were given other memory are still of a kind that their copy can hold."""
    first, joined = weights[0], found.joined
    same_kind = joined.dtype == first.dtype and joined.device == first.device
    return same_kind and len(joined) == sum(map(len, weights))


def _note(found: _Packed, weights: Sequence[Tensor]) -> None:
    found.states[:] = map(_state, weights)
    found.storages[:] = (StorageWeakRef(weight.untyped_storage()) for weight in weights)


def _state(weight: Tensor) -> tuple[int, int, int]:
    """Where a weight lies, and how often it was written to, as far as torch counts that."""
    writes = 0 if weight.is_inference() else weight._version
    return weight.untyped_storage()._cdata, weight.data_ptr(), writes


def _watched(weights: Sequence[Tensor], key: tuple[int, ...]) -> tuple[weakref.ref[Tensor], ...]:
    """With each weight goes the copy: another tensor may get its `id`."""
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
