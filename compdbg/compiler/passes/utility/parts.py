"""Parts of a tensor along one dimension: what slices, selections and splits read, and scatters write."""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import torch
from torch import fx

aten = torch.ops.aten
SPLITS = (aten.split.Tensor, aten.split_with_sizes.default)


class Part(NamedTuple):
    """`source` from `start` to `end` along `dim`; `select`: the dimension is then dropped."""

    source: fx.Node
    dim: int
    start: int
    end: int
    select: bool = False

    def same_place(self, other: Part) -> bool:
        return self[1:] == other[1:]

    def apart_from(self, other: Part) -> bool:
        """Whether the two have no element in common, whatever they are parts of."""
        return self.dim == other.dim and (self.end <= other.start or other.end <= self.start)


def part_read(node: fx.Node) -> Part | None:
    """What a node reads, if it is such a part and its place is known."""
    if node.op != "call_function" or node.kwargs:
        return None
    if node.target is aten.slice.Tensor:
        return _slice(node, *node.args)
    if node.target is aten.select.int:
        return _select(node, *node.args)
    if node.target is operator.getitem:
        return _of_split(node)
    return None


def part_written(node: fx.Node) -> tuple[Part, fx.Node] | None:
    """Of a scatter: the part that it replaces of its first argument, and by what."""
    if node.op != "call_function" or node.kwargs or len(node.args) < 3:
        return None
    into, written, *place = node.args
    if node.target is aten.slice_scatter.default:
        part = _slice(node, into, *place)
    elif node.target is aten.select_scatter.default:
        part = _select(node, into, *place)
    else:
        return None
    return (part, written) if part is not None and isinstance(written, fx.Node) else None


def value_of(node: Any) -> torch.Tensor | None:
    """The fake tensor of a node that is one."""
    value = node.meta.get("val") if isinstance(node, fx.Node) else None
    return value if isinstance(value, torch.Tensor) else None


def extent(node: Any, dim: Any) -> tuple[int, int] | None:
    """A dimension counted from the front, and its size, if that is a plain number."""
    value = value_of(node)
    if value is None or not isinstance(dim, int) or not value.dim():
        return None
    dim %= value.dim()
    size = value.shape[dim]
    return (dim, size) if isinstance(size, int) else None


def sizes_of_split(node: fx.Node) -> list[int] | None:
    """The sizes of the parts, if the node is a split into parts of known sizes."""
    if node.target not in SPLITS or node.kwargs:
        return None
    source, by, *rest = node.args
    known = extent(source, rest[0] if rest else 0)
    if known is None:
        return None
    if node.target is aten.split.Tensor:
        if not isinstance(by, int) or by < 1:
            return None
        return [min(by, known[1] - start) for start in range(0, known[1], by)]
    sizes: Any = by
    return list(sizes) if all(isinstance(size, int) for size in sizes) else None


def _slice(
    node: fx.Node, source: Any, dim: Any = 0, start: Any = None, end: Any = None, step: Any = 1
) -> Part | None:
    known = extent(source, dim)
    if known is None or step != 1 or not all(b is None or isinstance(b, int) for b in (start, end)):
        return None
    first, last, _ = slice(start, end).indices(known[1])
    return Part(source, known[0], first, max(first, last))


def _select(node: fx.Node, source: Any, dim: Any, index: Any) -> Part | None:
    known = extent(source, dim)
    if known is None or not isinstance(index, int):
        return None
    index %= known[1]
    return Part(source, known[0], index, index + 1, select=True)


def _of_split(node: fx.Node) -> Part | None:
    split: Any = node.args[0]
    sizes = sizes_of_split(split)
    if sizes is None:
        return None
    known = extent(split.args[0], split.args[2] if len(split.args) > 2 else 0)
    index: Any = node.args[1]
    if known is None or not isinstance(index, int):
        return None
    start = sum(sizes[:index])
    return Part(split.args[0], known[0], start, start + sizes[index])
