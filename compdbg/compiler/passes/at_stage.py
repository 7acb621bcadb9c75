"""A function as our passes see it: after AOT autograd and all of Inductor's passes, without its code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx


def run_post_grad_passes(graph: fx.GraphModule, example_inputs: Sequence[Any], **_: Any) -> Any:
    """What Inductor does to a graph before it makes code of it; the graph itself is what then runs.

    To be given to `compile_fx` as `inner_compile`. Custom passes of Inductor's configuration run too.
    """
    from torch._functorch.aot_autograd import make_boxed_func
    from torch._inductor.compile_fx import _recursive_post_grad_passes
    from torch._inductor.fx_passes.post_grad import view_to_reshape
    from torch._inductor.virtualized import V

    view_to_reshape(graph)
    with V.set_fake_mode(torch._dynamo.utils.detect_fake_mode(example_inputs)):
        _recursive_post_grad_passes(graph, is_inference=True)
    graph.recompile()
    return make_boxed_func(graph.forward)


def show_to_pass(
    function: Callable[..., Any], inputs: Sequence[Any], custom_pass: Callable[[fx.Graph], Any]
) -> None:
    """Give the graph of `function` to a pass, where `post_grad_custom_post_pass` runs."""
    from torch._inductor.compile_fx import compile_fx

    module = make_fx(function)(*inputs)
    with torch._inductor.config.patch(force_disable_caches=True), torch._guards.tracing(None):
        compile_fx(
            module,
            list(inputs),
            inner_compile=run_post_grad_passes,
            config_patches={"post_grad_custom_post_pass": custom_pass},
        )
