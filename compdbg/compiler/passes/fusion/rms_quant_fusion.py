"""`fuse_norm_quant`: RMSNorm and quantisation, with the sum with the residual before it, as one operator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from compdbg.compiler.ops import norms
from compdbg.compiler.ops.norms import norm
from compdbg.compiler.ops.quant import LIMITS, dynamic_quant, static_quant
from compdbg.compiler.passes.fusion.forms import (
    EPS,
    GROUP,
    HALF,
    SHORT,
    STYLE,
    TOKENS,
    WIDTH,
    alike,
    held,
    named,
    variants,
)
from compdbg.compiler.passes.fusion.fusion_pass import FusionPass, FusionPattern


class RMSNormQuantFusionPass(FusionPass):
    """Residual, norm and quantisation; where nothing is quantised, residual and norm."""

    def patterns(self) -> Iterator[FusionPattern]:
        for dtype in LIMITS:
            yield _residual_static(dtype)
            yield _residual_dynamic(dtype)
        for dtype in LIMITS:
            yield _static(dtype)
            yield _dynamic(dtype)
        yield _residual_only()


def norm_form(pattern: Any, replacement: Any, to: torch.dtype | None) -> FusionPattern:
    """A form over `x`, `weight` and, by the pattern's parameters, `residual`, `scale`, `group`."""
    names = pattern.__code__.co_varnames[: pattern.__code__.co_argcount]

    def make(tokens: int, width: int, dtype: torch.dtype) -> list[Tensor]:
        tensors = {
            "x": torch.empty(tokens, width, dtype=dtype),
            "residual": torch.empty(tokens, width, dtype=dtype),
            "weight": torch.empty(width, dtype=dtype),
            "scale": torch.empty(()),
        }
        return [tensors[name] for name in names if name in tensors]

    numbers: dict[str, float | int] = {"eps": EPS, "style": STYLE, "group": GROUP}
    return FusionPattern(
        pattern=pattern,
        replacement=replacement,
        inputs=lambda: make(TOKENS, WIDTH, torch.bfloat16),
        variants=variants(make, torch.float32, *HALF),
        scalar_workaround={name: value for name, value in numbers.items() if name in names},
        extra_check=alike(*(name for name in ("x", "residual") if name in names), weight="weight"),
        applies_to=held(to) if to is not None else None,
    )


def _residual_static(to: torch.dtype) -> FusionPattern:
    def pattern(x: Tensor, residual: Tensor, weight: Tensor, scale: Tensor, eps: float, style: int) -> Any:
        total = x + residual
        return static_quant(norm(total, weight, eps, style), scale, to), total

    def replacement(
        x: Tensor, residual: Tensor, weight: Tensor, scale: Tensor, eps: float, style: int
    ) -> Any:
        return norms.add_rms_norm_static_quant(x, residual, weight, scale, eps, style, to)

    return norm_form(named(f"residual_norm_static_{SHORT[to]}", pattern), replacement, to)


def _residual_dynamic(to: torch.dtype) -> FusionPattern:
    def pattern(x: Tensor, residual: Tensor, weight: Tensor, eps: float, style: int, group: int) -> Any:
        total = x + residual
        out, scales = dynamic_quant(norm(total, weight, eps, style), group, to)
        return out, scales, total

    def replacement(x: Tensor, residual: Tensor, weight: Tensor, eps: float, style: int, group: int) -> Any:
        return norms.add_rms_norm_dynamic_quant(x, residual, weight, eps, style, group, to)

    return norm_form(named(f"residual_norm_dynamic_{SHORT[to]}", pattern), replacement, to)


def _static(to: torch.dtype) -> FusionPattern:
    def pattern(x: Tensor, weight: Tensor, scale: Tensor, eps: float, style: int) -> Any:
        return static_quant(norm(x, weight, eps, style), scale, to)

    def replacement(x: Tensor, weight: Tensor, scale: Tensor, eps: float, style: int) -> Any:
        return norms.rms_norm_static_quant(x, weight, scale, eps, style, to)

    return norm_form(named(f"norm_static_{SHORT[to]}", pattern), replacement, to)


def _dynamic(to: torch.dtype) -> FusionPattern:
    def pattern(x: Tensor, weight: Tensor, eps: float, style: int, group: int) -> Any:
        return dynamic_quant(norm(x, weight, eps, style), group, to)

    def replacement(x: Tensor, weight: Tensor, eps: float, style: int, group: int) -> Any:
        return norms.rms_norm_dynamic_quant(x, weight, eps, style, group, to)

    return norm_form(named(f"norm_dynamic_{SHORT[to]}", pattern), replacement, to)


def _residual_only() -> FusionPattern:
    def pattern(x: Tensor, residual: Tensor, weight: Tensor, eps: float, style: int) -> Any:
        total = x + residual
        return norm(total, weight, eps, style), total

    def replacement(x: Tensor, residual: Tensor, weight: Tensor, eps: float, style: int) -> Any:
        return norms.add_rms_norm(x, residual, weight, eps, style)

    return norm_form(named("residual_norm", pattern), replacement, None)
