"""Results keep the order of strides that the trace says they have, also where sizes are unbacked.

Inductor sees to that itself, unless a stride depends on an unbacked size: then it lays a result out as
is best for the kernel that writes it. A caller, or an operator at which the graph is split, that was
promised a contiguous tensor would read it wrongly, or fail.
"""

from __future__ import annotations

from typing import Any

import sympy
import torch
from torch import fx

from compdbg.compiler.passes.inductor_pass import InductorPass


class OutputStridesPass(InductorPass):
    """Asks for the order where Inductor would not. What lies so already is not copied."""

    def __call__(self, graph: fx.Graph) -> None:
        output = graph.output_node()
        for node in output.all_input_nodes:
            strides = [] if node.op == "placeholder" else _unbacked_strides(node.meta.get("val"))
            if strides:
                with graph.inserting_after(node):
                    ordered = graph.call_function(
                        torch.ops.prims.inductor_force_stride_order.default, (node, strides)
                    )
                ordered.meta = dict(node.meta)
                output.replace_input_with(node, ordered)


def _unbacked_strides(value: Any) -> list[int]:
    """The strides at the sizes that tuning assumes; nothing where none depends on an unbacked size."""
    if not isinstance(value, torch.Tensor):
        return []
    strides = value.stride()
    symbolic = [stride.node for stride in strides if isinstance(stride, torch.SymInt)]
    if not symbolic:
        return []
    sizes = symbolic[0].shape_env.var_to_hint_override
    if not frozenset().union(*(node.expr.free_symbols for node in symbolic)) <= sizes.keys():
        return []
    usual = {symbol: sympy.Integer(size) for symbol, size in sizes.items()}
    return [int(s.node.expr.xreplace(usual)) if isinstance(s, torch.SymInt) else s for s in strides]
