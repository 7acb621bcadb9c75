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
