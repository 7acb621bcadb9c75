"""Takes the sum with the residual out of a matrix product again, where it is read in the graph.

Inductor makes one `addmm` of a product and a sum, also where what is added is no bias but the whole
residual, unless all that reads the sum are pointwise operators. At the border of a piece the sum is a
result too, and would stay an `addmm`: on a GPU that copies the residual first and adds to it, while
the kernel that reads the sum can add by itself. A fused norm wants to do so on every device.
"""

from __future__ import annotations

import torch
from torch import fx

from compdbg.compiler.ops import norms
from compdbg.compiler.passes.inductor_pass import InductorPass
from compdbg.compiler.passes.utility.noop_elimination import same_sizes

aten = torch.ops.aten


_PRODUCTS = frozenset({aten.mm.default, aten.addmm.default, aten.bmm.default, aten.baddbmm.default})


class ResidualSumPass(InductorPass):
    """`addmm(residual, a, b)` becomes `mm(a, b) + residual` where something can take in the sum."""

    def __call__(self, graph: fx.Graph) -> None:
        for node in graph.find_nodes(op="call_function", target=aten.addmm.default):
            residual, a, b = node.args
            if node.kwargs or not any(_takes_in(user, node) for user in node.users):
                continue
            if same_sizes(residual.meta["val"].shape, node.meta["val"].shape):
                _take_apart(graph, node, residual, a, b)


def _takes_in(user: fx.Node, total: fx.Node) -> bool:
    """Whether the kernel of `user` can add as it reads: a norm's can, and Inductor's own on a GPU."""
    if user.target is norms.norm:
        return True
    if total.meta["val"].device.type == "cpu" or user.target in _PRODUCTS:
        return False
    return isinstance(user.target, torch._ops.OpOverload) and user.target.namespace in ("aten", "prims")


def _take_apart(graph: fx.Graph, node: fx.Node, residual: fx.Node, a: fx.Node, b: fx.Node) -> None:
    with graph.inserting_before(node):
        product = graph.call_function(aten.mm.default, (a, b))
        total = graph.call_function(aten.add.Tensor, (product, residual))
    product.meta = dict(node.meta)
    total.meta = dict(node.meta)
    node.replace_all_uses_with(total)
    graph.erase_node(node)
