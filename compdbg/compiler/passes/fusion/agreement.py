"""Whether a replacement is what it replaces: dtype, shape, strides and values, on random inputs.

Memory that an operator allocates and forgets to write is poisoned (NaN) while both run.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from msgspec import Struct

if TYPE_CHECKING:
    from compdbg.compiler.passes.fusion.fusion_pass import FusionPattern


class Disagreement(Struct, frozen=True):
    """Where a replacement is not what it replaces."""

    pattern: str
    what: str
    """`dtype`, `shape`, `strides`, `values` or `outputs`."""
    wanted: str
    found: str


def compared(
    form: FusionPattern, examples: Sequence[torch.Tensor], device: str, tolerance: float
) -> list[Disagreement]:
    """Run both on random tensors like the examples, and list what differs.

    `tolerance` is relative to the largest value; a value of 8 bits may be one step off besides.
    """
    scalars = form.scalar_workaround or {}
    inputs = [_random_like(tensor, device) for tensor in examples]
    with _poisoned_empties():
        wanted = form.pattern(*(t.clone() for t in inputs), **scalars)
        given = form.replacement(*(t.clone() for t in inputs), **scalars)
    return list(_compare(form.name, _outputs(wanted), _outputs(given), tolerance))


@contextmanager
def _poisoned_empties() -> Iterator[None]:
    before = torch.are_deterministic_algorithms_enabled(), torch.utils.deterministic.fill_uninitialized_memory
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=warn_only)
        torch.utils.deterministic.fill_uninitialized_memory = before[1]


def _random_like(tensor: torch.Tensor, device: str) -> torch.Tensor:
    if not tensor.dtype.is_floating_point:
        return torch.arange(tensor.numel(), device=device).view(tensor.shape).to(tensor.dtype)
    if tensor.dim() == 0:
        return torch.rand((), device=device).add(0.5).to(tensor.dtype)
    return torch.randn(tensor.shape, device=device).to(tensor.dtype)


def _outputs(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _compare(name: str, wanted: list[Any], given: list[Any], tolerance: float) -> Iterator[Disagreement]:
    if len(wanted) != len(given):
        yield Disagreement(name, "outputs", str(len(wanted)), str(len(given)))
        return
    for a, b in zip(wanted, given, strict=True):
        if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
            yield from _compare_tensors(name, a, b, tolerance)


def _strides(tensor: torch.Tensor) -> tuple[int, ...]:
    """Of the dimensions in which there is more than one."""
    return tuple(step for size, step in zip(tensor.shape, tensor.stride(), strict=True) if size > 1)


def _compare_tensors(name: str, a: torch.Tensor, b: torch.Tensor, tolerance: float) -> Iterator[Disagreement]:
    for what, x, y in (
        ("dtype", a.dtype, b.dtype),
        ("shape", list(a.shape), list(b.shape)),
        ("strides", _strides(a), _strides(b)),
    ):
        if x != y:
            yield Disagreement(name, what, str(x), str(y))
            return
    if not a.numel():
        return
    wide = a.double()
    allowed = tolerance * wide.abs().clamp(min=1.0)
    if a.dtype.itemsize == 1:
        allowed = allowed + (1.0 if not a.dtype.is_floating_point else wide.abs() / 8)
    apart = (wide - b.double()).abs()
    if not bool((apart <= allowed).all()):
        worst = float(torch.nan_to_num(apart, nan=float("inf")).max())
        yield Disagreement(name, "values", f"at most {tolerance:g} apart", f"{worst:g}")
