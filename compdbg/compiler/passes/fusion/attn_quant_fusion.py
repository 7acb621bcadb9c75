"""`fuse_attn_quant`: attention that quantises its output itself."""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import torch
from torch import fx
from torch._higher_order_ops.auto_functionalize import auto_functionalized_v2

from compdbg.compiler.ops.quant import static_quant
from compdbg.compiler.passes.attempts import Attempts, described, near
from compdbg.compiler.passes.inductor_pass import InductorPass
from compdbg.events import Reason

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
        self._attempts = Attempts(self.name)
        self._matched_count = 0
        for node in graph.find_nodes(op="call_function", target=static_quant):
            views = _views_to(node)
            written: Any = views[-1].args[0] if views else node.args[0]
            stop = _stop(written)
            if stop is None:
                self._attempts.matched(node, (node, *views, written, written.args[0]))
                _replace(graph, node, views, written.args[0])
                self._matched_count += 1
            else:
                _tell(self._attempts, node, 1 + len(views), stop)


class Stop(NamedTuple):
    """Where a quantisation's input is not what attention has written for it alone."""

    node: fx.Node
    reason: Reason
    wanted: str
    found: str


def _tell(attempts: Attempts, quant: fx.Node, matched: int, stop: Stop) -> None:
    """A miss, where an attention operator is near; at the graph's edge, one may be in another piece."""
    near_by = near(stop.node, _can_quantise)
    nodes = (matched, matched + 3)
    if near_by:
        attempts.missed(quant, *stop, near_by, nodes=nodes)
    elif stop.node.op == "placeholder":
        for operation in _quantising:
            wanted = f"auto_functionalized({operation})"
            found = described(stop.node)
            attempts.missed(
                quant, stop.node, "target-mismatch", wanted, found, nodes=nodes, pattern=str(operation)
            )


def _views_to(node: Any) -> list[Any]:
    """The reshapes between a node and what it is computed from, each with one reader; nearest first."""
    views = []
    source = node.args[0]
    while len(source.users) == 1 and source.target in (aten.reshape.default, aten.view.default):
        views.append(source)
        source = source.args[0]
    return views


def _can_quantise(node: Any) -> bool:
    return node.target is auto_functionalized_v2 and node.args[0] in _quantising


def _stop(written: Any) -> Stop | None:
    """Why a value is not what attention wrote into memory that was allocated for it; None where it is."""
    others = f"one user of {written.name}", f"{len(written.users)}"
    if written.target in (aten.reshape.default, aten.view.default):
        return Stop(written, "multiple-users", *others)  # `_views_to` went on otherwise
    if written.target is not operator.getitem or not _can_quantise(written.args[0]):
        found = described(written.args[0] if written.target is operator.getitem else written)
        return Stop(written, "target-mismatch", "an attention operator that can quantise", found)
    if len(written.users) != 1:
        return Stop(written, "multiple-users", *others)
    return _stop_at_attention(written.args[0])


def _stop_at_attention(node: Any) -> Stop | None:
    """The same for the operator itself: one result, in memory of its own."""
    if len(node.users) != 1:
        return Stop(
            node, "multiple-users", "nothing else of what attention gives", f"{len(node.users)} parts"
        )
    bases = node.kwargs["_all_bases"]
    if len(bases) != 1 or node.kwargs.get("_out_base_index") != 0:
        return Stop(node, "arg-mismatch", "one argument that is written to", f"{len(bases)}")
    if not _is_fresh(bases[0]):
        return Stop(node, "arg-mismatch", "an `out` allocated for the call alone", described(bases[0]))
    return None


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
