"""`fuse_attn_quant`: attention that quantises its output itself."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx
from torch._higher_order_ops.auto_functionalize import auto_functionalized_v2

from compdbg.compiler.ops.quant import static_quant
from compdbg.compiler.passes.inductor_pass import InductorPass

aten = torch.ops.aten
_quantising: dict[Any, Any] = {}


def register_quantising_attention(attention: Any, quantising: Any) -> None:
    """Say that one operator is another that also quantises.

    Both write to an argument `out`, which the caller allocates. `quantising` has the arguments of
    `attention`, and a tensor `output_scale`; its `out` is of 8 bits.
    """
    _quantising[attention] = quantising


class AttnQuantFusionPass(InductorPass):
    """Static quantisation of what an attention operator has written, and nothing else reads.

    The operator has to be in the compiled graph: where it splits the graph, there is nothing to fuse.
    """

    looks_for = "compdbg.static_quant.default"

    def __init__(self) -> None:
        self._matched_count = 0

    @property
    def matched_count(self) -> int:
        """Attention operators replaced in the graph that ran last."""
        return self._matched_count

    def __call__(self, graph: fx.Graph) -> None:
        self._matched_count = 0
        for node in graph.find_nodes(op="call_function", target=static_quant):
            views = _views_to(node)
            attention = _attention_of(views[-1].args[0] if views else node.args[0])
            if attention is not None:
                _replace(graph, node, views, attention)
                self._matched_count += 1


def _views_to(node: Any) -> list[Any]:
    """The reshapes between a node and what it is computed from, each with one reader; nearest first."""
    views = []
    source = node.args[0]
    while len(source.users) == 1 and source.target in (aten.reshape.default, aten.view.default):
        views.append(source)
        source = source.args[0]
    return views


def _attention_of(written: Any) -> fx.Node | None:
    """The operator that wrote a value into memory that was allocated for it, if it can quantise."""
    if written.target is not operator.getitem or len(written.users) != 1:
        return None
    node: Any = written.args[0]
    if node.target is not auto_functionalized_v2 or _quantising.get(node.args[0]) is None:
        return None
    bases = node.kwargs["_all_bases"]
    alone = len(node.users) == 1 and len(bases) == 1 and node.kwargs.get("_out_base_index") == 0
    return node if alone and _is_fresh(bases[0]) else None


def _is_fresh(base: fx.Node) -> bool:
    return len(base.users) == 1 and base.target in (aten.empty.memory_format, aten.empty_like.default)


def _replace(graph: fx.Graph, quant: fx.Node, views: list[Any], attention: fx.Node) -> None:
    _, scale, dtype = quant.args
    bases: Any = attention.kwargs["_all_bases"]
    with graph.inserting_before(attention):
        out = graph.node_copy(bases[0])
    out.kwargs = {**out.kwargs, "dtype": dtype}
    given = {**attention.kwargs, "output_scale": scale, "_all_bases": [out]}
    with graph.inserting_before(quant):
        call = graph.call_function(auto_functionalized_v2, (_quantising[attention.args[0]],), given)
        result = graph.call_function(operator.getitem, (call, 1))
        made = [out, result]
        for view in reversed(views):
            made.append(graph.call_function(view.target, (made[-1], view.args[1])))
    old = [bases[0], next(iter(attention.users)), *reversed(views)]
    for before, after in zip(old, made, strict=True):
        after.meta = {**before.meta, "val": before.meta["val"].to(dtype)}
    call.meta["val"] = (None, result.meta["val"])
    quant.replace_all_uses_with(made[-1])
    for node in (quant, *views, old[1], attention, bases[0]):
        graph.erase_node(node)
