"""One split for all who take parts of a tensor, in the form in which patterns have it.

Functionalization reads a view anew for each of its uses: four splits where the model has one. And a
model may take the two halves of a tensor by slices, or by `chunk`, or by sizes.
"""

from __future__ import annotations

import operator
from collections import defaultdict
from typing import Any

import torch
from torch import fx

from compdbg.compiler.passes.inductor_pass import InductorPass
from compdbg.compiler.passes.utility.parts import SPLITS, Part, extent, part_read, sizes_of_split

aten = torch.ops.aten
_VIEWS = (
    *SPLITS,
    operator.getitem,
    aten.slice.Tensor,
    aten.select.int,
    aten.reshape.default,
    aten.view.default,
    aten.permute.default,
)


class SplitCoalescingPass(InductorPass):
    """Slices that make up a whole tensor are a split; splits and other views that are equal are one.

    Parts of one size are `split.Tensor`, other parts `split_with_sizes`; the last dimension is -1.
    """

    def __call__(self, graph: fx.Graph) -> None:
        _slices_to_splits(graph)
        for target in SPLITS:
            for node in graph.find_nodes(op="call_function", target=target):
                _canonical(node)
        _share_views(graph)


def _slices_to_splits(graph: fx.Graph) -> None:
    slices: dict[tuple[fx.Node, int], dict[Part, list[fx.Node]]] = defaultdict(lambda: defaultdict(list))
    for node in graph.find_nodes(op="call_function", target=aten.slice.Tensor):
        part = part_read(node)
        if part is not None and part.end > part.start:
            slices[part.source, part.dim][part].append(node)
    for (source, dim), found in slices.items():
        parts = sorted(found, key=lambda part: part.start)
        if len(parts) > 1 and _make_up(parts, extent(source, dim)):
            _split(graph, source, dim, [found[part] for part in parts])


def _make_up(parts: list[Part], known: tuple[int, int] | None) -> bool:
    """Whether parts in order are the whole of a dimension, and none of it twice."""
    ends = [part.end for part in parts]
    starts = [part.start for part in parts]
    return known is not None and starts == [0, *ends[:-1]] and ends[-1] == known[1]


def _split(graph: fx.Graph, source: fx.Node, dim: int, parts: list[list[fx.Node]]) -> None:
    """A split of `source` ahead of all the slices, whose parts stand for those of each list."""
    values = [nodes[0].meta["val"] for nodes in parts]
    with graph.inserting_before(min(node for nodes in parts for node in nodes)):
        target, sizes = _form([value.shape[dim] for value in values])
        split = graph.call_function(target, (source, sizes, _dim(source, dim)))
    split.meta = {**parts[0][0].meta, "val": values}
    for i, nodes in enumerate(parts):
        for node in nodes:
            with graph.inserting_before(node):
                part = graph.call_function(operator.getitem, (split, i))
            part.meta = dict(node.meta)
            node.replace_all_uses_with(part)
            graph.erase_node(node)


def _canonical(split: fx.Node) -> None:
    sizes = sizes_of_split(split)
    if sizes is not None and len(sizes) > 1:
        target, by = _form(sizes)
        split.target = target
        split.args = (split.args[0], by, _dim(split.args[0], split.args[2] if len(split.args) > 2 else 0))


def _form(sizes: list[int]) -> tuple[Any, Any]:
    """The operator for parts of these sizes, and how it is told them."""
    first = sizes[0]
    if all(size == first for size in sizes[:-1]) and 0 < sizes[-1] <= first:
        return aten.split.Tensor, first
    return aten.split_with_sizes.default, sizes


def _dim(source: Any, dim: Any) -> int:
    rank = source.meta["val"].dim()
    return -1 if dim % rank == rank - 1 else dim % rank


def _share_views(graph: fx.Graph) -> None:
    """Of equal views of one value, the first; between two writes to memory of the graph's own."""
    from torch._inductor.pattern_matcher import compute_mutation_region_ids, get_mutation_region_id

    compute_mutation_region_ids(graph)
    first: dict[Any, fx.Node] = {}
    for node in list(graph.nodes):
        if node.op != "call_function" or node.target not in _VIEWS or node.kwargs:
            continue
        key = (get_mutation_region_id(graph, node), node.target, repr(node.args))
        earlier = first.setdefault(key, node)
        if earlier is not node and not any(user.op == "output" for user in node.users):
            node.replace_all_uses_with(earlier)
            graph.erase_node(node)
