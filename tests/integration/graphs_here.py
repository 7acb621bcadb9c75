"""Graphs as Inductor gets and treats them, without its code generation: a test in milliseconds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.fx import GraphModule

from compdbg.hooks.passrun import observed


def functional(fn: Callable[..., Any], *args: Any, dynamic: bool = False) -> GraphModule:
    """The inference graph of `fn` as Inductor gets it: functional, with `copy_` into inputs at its end."""
    from torch._dynamo.backends.common import aot_autograd

    found: list[GraphModule] = []

    def keep(gm: GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        found.append(gm)
        return gm.forward

    backend = aot_autograd(fw_compiler=keep, inference_compiler=keep, keep_inference_input_mutations=True)
    torch._dynamo.reset()
    with torch.no_grad():
        torch.compile(fn, backend=backend, fullgraph=True, dynamic=dynamic)(*args)
    return found[0]


def lower(gm: GraphModule, *passes: Callable[[Any], Any], **config: Any) -> GraphModule:
    """Run Inductor's joint and post-grad passes, with `passes` as its custom post-grad pass if given."""

    from torch._guards import detect_fake_mode
    from torch._inductor import compile_fx
    from torch._inductor.virtualized import V

    def custom(graph: Any) -> None:
        for one in passes:
            with observed(graph, one.__name__):
                one(graph)

    if passes:
        config["post_grad_custom_post_pass"] = custom
    inputs = [node.meta["val"] for node in gm.graph.nodes if node.op == "placeholder"]
    with (
        torch._inductor.config.patch(config),
        V.set_fake_mode(detect_fake_mode(inputs)),
    ):
        gm = compile_fx._recursive_joint_graph_passes(gm)
        compile_fx.view_to_reshape(gm)
        with torch.no_grad():
            compile_fx.fake_tensor_prop(gm, inputs)
        compile_fx._recursive_post_grad_passes(gm, is_inference=True)
    return gm


@contextmanager
def passing(gm: GraphModule, name: str = "my_pass") -> Iterator[Any]:
    """The body of a user's pass over the graph, observed."""
    with observed(gm.graph, name):
        yield gm.graph


def calls(gm: GraphModule, op: str) -> list[Any]:
    """The nodes that call an op, by a part of its name."""
    return [node for node in gm.graph.nodes if node.op == "call_function" and op in str(node.target)]


def functionalized(gm: GraphModule) -> list[Any]:
    return calls(gm, "auto_functionalized")


def as_triton(gm: GraphModule, kernel: Any) -> GraphModule:
    """The graph with its functionalized calls turned into calls of a Triton kernel, as on a GPU."""
    from torch._higher_order_ops.triton_kernel_wrap import (
        kernel_side_table,
        triton_kernel_wrapper_functional,
    )

    for node in functionalized(gm):
        bases = node.kwargs["_all_bases"]
        names = [a.name for a in node.args[0]._schema.arguments if a.alias_info is not None]
        given = {"x": node.kwargs["x"]} | dict(zip(names, bases, strict=True))
        kwargs = {
            "kernel_idx": kernel_side_table.add_kernel(kernel),
            "constant_args_idx": kernel_side_table.add_constant_args({}),
            "grid": [(1, 1, 1)],
            "tma_descriptor_metadata": {},
            "kwargs": given,
            "tensors_to_clone": names,
        }
        with gm.graph.inserting_before(node):
            call = gm.graph.call_function(triton_kernel_wrapper_functional, (), kwargs)
        call.meta = node.meta | {"val": {name: given[name].meta["val"] for name in names}}
        for user in list(node.users):
            user.args = (call, names[user.args[1] - 1])
        gm.graph.erase_node(node)
    return gm


def reinplace(gm: GraphModule) -> GraphModule:
    """Only the two passes that decide on copies of what Triton kernels write to, and make them."""
    from torch._guards import detect_fake_mode
    from torch._inductor.fx_passes import post_grad
    from torch._inductor.fx_passes import reinplace as passes
    from torch._inductor.virtualized import V

    inputs = [node.meta["val"] for node in gm.graph.nodes if node.op == "placeholder"]
    with V.set_fake_mode(detect_fake_mode(inputs)):
        for one in (
            passes.reinplace_inplaceable_ops_core,
            post_grad.decompose_triton_kernel_wrapper_functional,
        ):
            with observed(gm.graph, one.__name__, custom=False):
                one(gm.graph)
    return gm
