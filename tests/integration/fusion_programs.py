"""Shared by the fusion tests: ops, passes and graphs, small enough to be matched without a compile."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch._inductor.pattern_matcher as pm
from functorch.compile import make_boxed_func
from torch import Tensor
from torch._dynamo.backends.common import aot_autograd
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from compdbg.findings.base import Finding
from compdbg.findings.collect import find_all
from compdbg.model.fusion_rows import FusionRow
from compdbg.model.run import Run

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # torch deprecates what it uses itself
    import torch._inductor.compile_fx

ops = torch.ops.fusion_tests


@torch.library.custom_op("fusion_tests::rms", mutates_args=())
def rms(x: Tensor, w: Tensor, eps: float, variance: int | None = None) -> Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * w


@rms.register_fake
def _(x: Tensor, w: Tensor, eps: float, variance: int | None = None) -> Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("fusion_tests::scaled", mutates_args=())
def scaled(x: Tensor, by: float) -> tuple[Tensor, Tensor]:
    return x * by, x.sum()


@scaled.register_fake
def _(x: Tensor, by: float) -> tuple[Tensor, Tensor]:
    return torch.empty_like(x), x.new_empty(())


@torch.library.custom_op("fusion_tests::bump", mutates_args=("x",))
def bump(x: Tensor) -> None:
    x.add_(1)


X, Y, W = torch.empty(5, 4), torch.empty(5, 4), torch.empty(4)


def rms_round(x: Tensor, w: Tensor) -> Tensor:
    return ops.rms(x, w, 1e-5).round()


def graph_of(function: Callable[..., Any], *inputs: Any) -> GraphModule:
    """A function as ATen ops, as a post-grad pass sees it, but for the user's lines."""
    graph = make_fx(function, tracing_mode="fake")(*inputs)
    graph.graph.eliminate_dead_code()
    return graph


def compiled_with(
    function: Callable[..., Any], *inputs: Any, passes: Sequence[Callable[[GraphModule], Any]]
) -> Any:
    """Compile and call a function through AOT autograd, with these passes and without Inductor."""

    def compiler(gm: GraphModule, example_inputs: Any) -> Any:
        for each in passes:
            each(gm)
        gm.recompile()
        return make_boxed_func(gm)

    return torch.compile(function, backend=aot_autograd(fw_compiler=compiler), fullgraph=True)(*inputs)


def a_pass(
    pattern: Callable[..., Any], inputs: list[Tensor], name: str = "Fusion", **how: Any
) -> pm.PatternMatcherPass:
    """A pass of one pattern, which is replaced by its first input, negated."""
    made = pm.PatternMatcherPass(pass_name=name)
    add_pattern(made, pattern, inputs, **how)
    return made


def add_pattern(
    made: pm.PatternMatcherPass, pattern: Callable[..., Any], inputs: list[Tensor], **how: Any
) -> None:
    def replacement(*args: Any) -> Any:
        out = pattern(*args)
        return tuple(args[0].neg() for _ in out) if isinstance(out, tuple) else args[0].neg()

    replacement.__signature__ = inspect.signature(pattern)  # type: ignore[attr-defined]
    pm.register_replacement(pattern, replacement, inputs, pm.fwd_only, made, **how)


def rms_pass(name: str = "RMSRound", **how: Any) -> pm.PatternMatcherPass:
    return a_pass(rms_round, [X, W], name, **how)


def only_row(run: Run, name: str = "Fusion") -> FusionRow:
    (row,) = [r for r in run.fusion if r.pass_ == name]
    return row


def findings(run: Run, code: str) -> list[Finding]:
    return [f for f in find_all(run) if f.code == code]


def alarms(run: Run) -> list[str]:
    return [f.code for f in find_all(run) if f.severity != "info"]
