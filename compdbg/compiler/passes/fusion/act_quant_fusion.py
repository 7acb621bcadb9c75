"""`fuse_act_quant`: SiLU of the gate, times the other half, quantised, as one operator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from compdbg.compiler.ops import activations
from compdbg.compiler.ops.activations import activation
from compdbg.compiler.ops.quant import LIMITS, dynamic_quant, static_quant
from compdbg.compiler.passes.fusion.forms import (
    GROUP,
    HALF,
    SHORT,
    TOKENS,
    WIDTH,
    alike,
    held,
    named,
    variants,
)
from compdbg.compiler.passes.fusion.fusion_pass import FusionPass, FusionPattern


class ActivationQuantFusionPass(FusionPass):
    """`quantize(F.silu(gate) * up)`, for every way to quantise."""

    def patterns(self) -> Iterator[FusionPattern]:
        for dtype in LIMITS:
            yield _static(dtype)
            yield _dynamic(dtype)


def _static(to: torch.dtype) -> FusionPattern:
    def pattern(gate: Tensor, up: Tensor, scale: Tensor) -> Any:
        return static_quant(activation(gate, up), scale, to)

    def replacement(gate: Tensor, up: Tensor, scale: Tensor) -> Any:
        return activations.silu_mul_static_quant(gate, up, scale, to)

    return _form(named(f"silu_mul_static_{SHORT[to]}", pattern), replacement, to)


def _dynamic(to: torch.dtype) -> FusionPattern:
    def pattern(gate: Tensor, up: Tensor, group: int) -> Any:
        return dynamic_quant(activation(gate, up), group, to)

    def replacement(gate: Tensor, up: Tensor, group: int) -> Any:
        return activations.silu_mul_dynamic_quant(gate, up, group, to)

    numbers: dict[str, float | int] = {"group": GROUP}
    return _form(named(f"silu_mul_dynamic_{SHORT[to]}", pattern), replacement, to, numbers)


def _form(
    pattern: Any,
    replacement: Any,
    to: torch.dtype,
    numbers: dict[str, float | int] | None = None,
) -> FusionPattern:
    def make(tokens: int, width: int, dtype: torch.dtype) -> list[Tensor]:
        halves = [torch.empty(tokens, width, dtype=dtype) for _ in range(2)]
        return halves if numbers else [*halves, torch.empty(())]

    return FusionPattern(
        pattern=pattern,
        replacement=replacement,
        inputs=lambda: make(TOKENS, WIDTH, torch.bfloat16),
        variants=variants(make, torch.float32, *HALF),
        scalar_workaround=numbers,
        extra_check=alike("gate", "up"),
        applies_to=held(to),
    )
