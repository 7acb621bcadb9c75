"""Where the batch size stands in a graph's inputs and outputs: what padding and slicing go by.

Dynamo flattens a call's arguments into positional graph inputs; sizes that vary are inputs of
their own. Everything here speaks of positions in that flat list.
"""

from __future__ import annotations

from msgspec import Struct


class BatchDim(Struct, frozen=True):
    """A dimension whose size is `multiple` times the batch size."""

    dim: int
    multiple: int = 1


class SizeSource(Struct, frozen=True):
    """Where the batch size is read: an int input, or with `dim` a dimension of a tensor input."""

    index: int
    dim: int | None = None


class SizeInput(Struct, frozen=True):
    """An int input that is `multiple` times the batch size, and must follow it when rows are added."""

    index: int
    multiple: int = 1


class DynamicInput(Struct, frozen=True):
    """A tensor input with batch dimensions: copied into a buffer of the padded size."""

    index: int
    dims: tuple[BatchDim, ...]


class DynamicSpec(Struct, frozen=True, kw_only=True):
    """The batch size of one graph: where it comes from, what depends on it, what to slice back."""

    size: SizeSource | None = None
    """None: the graph has no batch size, and is called as it is."""
    size_inputs: tuple[SizeInput, ...] = ()
    inputs: tuple[DynamicInput, ...] = ()
    outputs: tuple[tuple[BatchDim, ...], ...] = ()
    """For each graph output, the dimensions to slice back to the true size."""
    paddable: bool = True
    why: str = ""
    """Why not, where rows can't be added: a size that is no multiple of the batch size."""
    static: frozenset[int] = frozenset()
    """Inputs that are parameters or buffers of the model: their addresses do not change."""
    mutated: frozenset[int] = frozenset()
    """Inputs of `inputs` that the graph writes to: the caller's tensor must see it."""
    input_names: tuple[str, ...] = ()
