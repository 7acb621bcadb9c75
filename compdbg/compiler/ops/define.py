"""How an operator of ours is defined: schema, fake, reference, and the kernel for a GPU."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import torch

_library = torch.library.Library("compdbg", "FRAGMENT")


def operator(
    schema: str, reference: Callable[..., Any], fake: Callable[..., Any], kernel: str | None = None
) -> Any:
    """Register `compdbg::<schema>`, and return it.

    `reference` runs everywhere but on CUDA, where `kernel` (`module:function`, with the same
    parameters) runs. Without a kernel the reference runs there too.
    """
    name = schema.partition("(")[0]
    _library.define(schema)
    _library.impl(name, reference, "CompositeExplicitAutograd")
    if kernel is not None:
        _library.impl(name, _imported_on_call(kernel), "CUDA")
    _library._register_fake(name, fake)
    return getattr(torch.ops.compdbg, name).default


def _imported_on_call(place: str) -> Callable[..., Any]:
    module, _, name = place.partition(":")

    @functools.cache
    def found() -> Callable[..., Any]:
        function: Callable[..., Any] = getattr(importlib.import_module(module), name)
        return function

    def call(*args: Any, **kwargs: Any) -> Any:
        return found()(*args, **kwargs)

    return call


def block(schema: str, function: Callable[..., Any]) -> Any:
    """A building block: an operator that stands for plain PyTorch while fusions are looked for.

    Its fake is the function itself, so that it gives what the function gives for any dtypes.
    """
    made = operator(schema, function, function)
    BLOCKS[made] = function
    return made


BLOCKS: dict[Any, Callable[..., Any]] = {}
"""Operators that no compiled graph holds, and what becomes of them."""
