"""What a Dynamo graph depends on: inputs it writes to, default device and dtype, autocast, training."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from compdbg import probe
from compdbg.hooks import compile_facts
from compdbg.hooks.base import Patches, Target, contained
from compdbg.hooks.compile_facts import Facts, Style
from compdbg.hooks.guard_names import source_name
from compdbg.hooks.op_shapes import OpShapes

BACKEND = Target(
    "torch._dynamo.output_graph:OutputGraph.call_user_compiler", ("self", "gm", "example_inputs")
)

_LOWERED = frozenset(
    ("addbmm", "addmm", "addmv", "addr", "baddbmm", "bilinear", "bmm", "chain_matmul", "conv1d", "conv2d",
     "conv3d", "conv_tbc", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "convolution",
     "einsum", "gru", "gru_cell", "linear", "lstm", "lstm_cell", "matmul", "mm", "multi_dot",
     "multi_head_attention_forward", "mv", "prelu", "rnn_relu", "rnn_tanh",
     "scaled_dot_product_attention")
)  # fmt: skip
"""Ops that autocast runs in lower precision whatever their inputs are."""


def install(patches: Patches) -> None:
    patches.wrap(BACKEND, _around_backend)


def _around_backend(original: Callable[..., Any]) -> Callable[..., Any]:
    def call_user_compiler(self: Any, gm: Any, *args: Any, **kwargs: Any) -> Any:
        facts = compile_facts.here() if probe.active() else None
        if facts is None:
            return original(self, gm, *args, **kwargs)
        with contained("guards"):
            look_at(gm, facts)
        facts.in_backend = True
        try:
            compiled = original(self, gm, *args, **kwargs)
        finally:
            facts.in_backend = False
        with contained("guards"):
            facts.style = _style_of(self, gm, compiled)
        return compiled

    return call_user_compiler


def look_at(gm: Any, facts: Facts) -> None:
    """Note what the graph depends on. Called before the backend changes it."""
    torch = sys.modules["torch"]
    facts.mutated.clear()
    for node in gm.graph.nodes:
        example = node.meta.get("example_value")
        is_tensor = isinstance(example, torch.Tensor)
        if node.op == "placeholder" and is_tensor:
            _look_at_input(node, example, facts, torch.is_grad_enabled())
        elif node.op.startswith("call_") and is_tensor:
            _look_at_op(torch, node, example, facts)
    facts.shapes = OpShapes(gm)


def _look_at_input(node: Any, example: Any, facts: Facts, grad: bool) -> None:
    facts.training = facts.training or (grad and bool(example.requires_grad))
    if getattr(example, "_version", 0) > 0:
        source = getattr(node.meta.get("grapharg"), "source", None)
        facts.mutated.add(source_name(source))


def _look_at_op(torch: Any, node: Any, example: Any, facts: Facts) -> None:
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    if name in _LOWERED:
        facts.autocast = True
    inputs = [n.meta.get("example_value") for n in node.all_input_nodes]
    tensors = [value for value in inputs if isinstance(value, torch.Tensor)]
    if any(not tensor.is_floating_point() for tensor in (example, *tensors)):
        facts.whole_numbers = True
    if not tensors and node.kwargs.get("device") is None:
        facts.makes_tensors = True
    if (
        example.dtype == torch.get_default_dtype()
        and node.kwargs.get("dtype") is None
        and not any(t.is_floating_point() or t.is_complex() for t in tensors)
        and not any(isinstance(a, torch.dtype) for a in node.args)
    ):
        facts.default_dtype = True


def _style_of(output_graph: Any, gm: Any, compiled: Any) -> Style:
    """How the backend's result runs the graph."""
    if getattr(compiled, "__self__", None) is gm or compiled is gm:
        return "ops"
    backend = getattr(output_graph, "compiler_fn", None)
    for _ in range(8):
        name = getattr(backend, "compiler_name", None) or getattr(backend, "_compiler_name", None)
        if name is not None:
            return _named(str(name))
        inner = getattr(backend, "_torchdynamo_orig_backend", None) or getattr(backend, "compiler_fn", None)
        if inner is None:
            break
        backend = inner
    return _named(getattr(backend, "__name__", ""))


def _named(backend: str) -> Style:
    if backend == "inductor":
        return "generated"
    return "ops" if backend in ("eager", "eager_noexcept", "eager_debug", "pre_dispatch_eager") else "unknown"
