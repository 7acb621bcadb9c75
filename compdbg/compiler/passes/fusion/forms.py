"""What the forms of fusions have in common: sentinels for numbers, checks, example tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

from compdbg.compiler.passes.utility.noop_elimination import same_sizes

F = TypeVar("F", bound=Callable[..., Any])
Make = Callable[[int, int, torch.dtype], Sequence[Tensor]]
"""Example tensors for so many tokens, such a width, and a dtype."""

TOKENS = 5
WIDTH = 256
"""Of the tensors that patterns are traced with."""
EPS, STYLE, GROUP = 1e-5, 7, 64
"""Stand for any epsilon, style of norm, and group of columns: see `scalar_workaround`."""
HALF = (torch.bfloat16, torch.float16)
"""In order: a set of dtypes has another in each process, and this is part of what a pass is known by."""
SHORT = {
    torch.float32: "float32",
    torch.bfloat16: "bfloat16",
    torch.float8_e4m3fn: "fp8",
    torch.int8: "int8",
}


def named(name: str, function: F) -> F:
    """The function under the name that its misses are reported by."""
    function.__name__ = function.__qualname__ = name
    return function


def alike(*names: str, weight: str | None = None) -> Callable[[Any], bool]:
    """A check for matches whose named tensors have one shape and one dtype, which the weight has too."""

    def operands_are_alike(match: Any) -> bool:
        first, *others = (value_of(match, name) for name in names)
        dtypes = {tensor.dtype for tensor in (first, *others)}
        dtypes |= {value_of(match, weight).dtype} if weight else set()
        return len(dtypes) == 1 and all(same_sizes(first.shape, other.shape) for other in others)

    return operands_are_alike


def value_of(match: Any, name: str) -> Tensor:
    """The fake tensor that a match has for a parameter of its pattern."""
    value: Tensor = match.kwargs[name].meta["val"]
    return value


def held(*dtypes: torch.dtype) -> Callable[[frozenset[torch.dtype]], bool]:
    """Whether a graph's dtypes hold all of these; a half type stands for either."""

    def all_held(graph: frozenset[torch.dtype]) -> bool:
        return all(not graph.isdisjoint(HALF) if dtype in HALF else dtype in graph for dtype in dtypes)

    return all_held


def variants(make: Make, *dtypes: torch.dtype) -> Callable[[], Iterator[Sequence[Tensor]]]:
    """What `make` gives for other sizes and these dtypes."""

    def all_of_them() -> Iterator[Sequence[Tensor]]:
        for dtype in dtypes:
            for tokens, width in ((1, 128), (3, 384), (17, 1024)):
                yield make(tokens, width, dtype)

    return all_of_them
