"""Takes the sum with the residual out of a matrix product again, where a norm follows.

Inductor makes one `addmm` of a product and a sum, also where what is added is no bias but the whole
residual. A fused norm wants to add it itself.
"""

from __future__ import annotations

import torch
from torch import fx

from compdbg.compiler.ops import norms
from compdbg.compiler.passes.inductor_pass import InductorPass
from compdbg.compiler.passes.utility.noop_elimination import same_sizes

aten = torch.ops.aten


class ResidualSumPass(InductorPass):
    """`addmm(residual, a, b)` that is normalised becomes `mm(a, b) + residual`."""

    def __call__(self, graph: fx.Graph) -> None:
        for node in graph.find_nodes(op="call_function", target=aten.addmm.default):
            residual, a, b = node.args
            if node.kwargs or not any(user.target is norms.norm for user in node.users):
                continue
            if same_sizes(residual.meta["val"].shape, node.meta["val"].shape):
                _take_apart(graph, node, residual, a, b)


def _take_apart(graph: fx.Graph, node: fx.Node, residual: fx.Node, a: fx.Node, b: fx.Node) -> None:
    with graph.inserting_before(node):
        product = graph.call_function(aten.mm.default, (a, b))
        total = graph.call_function(aten.add.Tensor, (product, residual))
    product.meta = dict(node.meta)
    total.meta = dict(node.meta)
    node.replace_all_uses_with(total)
    graph.erase_node(node)
