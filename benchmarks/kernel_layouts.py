"""Launches of the fused kernels by hand, each laid out in several ways. Needs a GPU."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from benchmarks.fused_regions import BF16, heads_of
from compdbg.compiler.ops import activation_kernels, norm_kernels, rope_kernels
from compdbg.compiler.ops.layouts import Layout

FP8 = torch.float8_e4m3fn


Choice = Layout | None
"""None: what the rule chooses."""


def choices(small: bool, eps: float) -> Iterator[Any]:
    """Name, tokens, width, choices, and what makes inputs and a call of a choice."""
    for tokens, width in ((8192, 4096), (64, 4096), (8192, 8192), (8192, 2048), (1, 4096)):
        padded = [Layout(1, width, warps) for warps in (2, 4, 8, 16, 32)]
        several = [Layout(2, width, warps) for warps in (8, 16)] if width < 8192 else []
        for name, parts in NORMS.items():
            call = functools.partial(norm, parts=parts, tokens=tokens, width=width, eps=eps)
            yield name, tokens, width, [None, *padded, *(several if parts.group == 0 else [])], call
        blocks = [Layout(1, c, w) for c in (512, 1024, 2048, 4096) for w in (1, 2, 4, 8) if c >= w * 256]
        silu = functools.partial(activation, tokens=tokens, width=width)
        yield "silu*mul+static", tokens, width, [None, *blocks], silu
        heads = [Layout(rows, 64, warps) for rows in (1, 2, 4, 8, 16) for warps in (1, 2, 4)]
        turn = functools.partial(turned, tokens=tokens, width=width)
        yield "rope+cache", tokens, width, [None, *heads], turn


class Parts(NamedTuple):
    """Which form of the norm."""

    residual: bool
    static: bool
    group: int = 0
    quantised: bool = True


NORMS = {
    "norm+static": Parts(False, True),
    "norm+per-token": Parts(False, False),
    "norm+group128": Parts(False, False, 128),
    "residual+norm+per-token": Parts(True, False),
    "residual+norm": Parts(True, False, quantised=False),
}


def norm(choice: Choice, parts: Parts, tokens: int, width: int, eps: float) -> tuple[Callable[..., Any], Any]:
    def make() -> Sequence[Tensor]:
        count = 2 if parts.residual else 1
        weight = torch.ones(width, device="cuda", dtype=BF16)
        return [*(torch.randn(tokens, width, device="cuda").to(BF16) for _ in range(count)), weight]

    scale = torch.tensor(0.02, device="cuda") if parts.static else None

    def use(*tensors: Tensor) -> Any:
        x, weight = tensors[0], tensors[-1]
        out = torch.empty_like(x, dtype=FP8 if parts.quantised else BF16)
        count = width // parts.group if parts.group else 1
        scales = None if parts.static else x.new_empty((tokens, count), dtype=torch.float32)
        total = torch.empty_like(x) if parts.residual else None
        residual = tensors[1] if parts.residual else None
        norm_kernels.launch(x, residual, weight, scale, out, scales, total, eps, 0, parts.group, choice)
        return out, scales, total

    return make, use


def activation(choice: Choice, tokens: int, width: int) -> tuple[Callable[..., Any], Any]:
    scale = torch.tensor(0.02, device="cuda")

    def make() -> Sequence[Tensor]:
        return [torch.randn(tokens, width, device="cuda").to(BF16) for _ in range(2)]

    def use(gate: Tensor, up: Tensor) -> Tensor:
        out = torch.empty_like(gate, dtype=FP8)
        activation_kernels.launch(gate, up, scale, out, None, 0, choice)
        return out

    return make, use


def turned(choice: Choice, tokens: int, width: int) -> tuple[Callable[..., Any], Any]:
    def make() -> Sequence[Tensor]:
        parts = heads_of(tokens, width, "cuda")
        cache = torch.empty(2, tokens // 16 + 2, 16, *parts[1].shape[1:], dtype=BF16, device="cuda")
        return [*parts, cache, torch.randperm(tokens, device="cuda")]

    def use(query: Tensor, key: Tensor, value: Tensor, cos: Tensor, sin: Tensor, *cache: Tensor) -> Tensor:
        out = query.new_empty(query.shape)
        rope_kernels.launch(
            query, key, value, cos, sin, False,
            query_out=out, cache=cache[0], slots=cache[1], layout=choice,
        )  # fmt: skip
        return out

    return make, use
