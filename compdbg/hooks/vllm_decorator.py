"""vLLM's `@support_torch_compile`: what it asks for, and whether a model that is made is compiled."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from compdbg import probe
from compdbg.events import Decorated
from compdbg.hooks import userline
from compdbg.hooks.base import Patches, contained
from compdbg.hooks.vllm_targets import SHOULD_IGNORE

HOOK = "vllm"

_said: set[tuple[str, str]] = set()
"""Classes and outcomes that are recorded already: engines make many instances."""


def install(patches: Patches) -> None:
    patches.wrap(SHOULD_IGNORE, _observe_instance)
    patches.on_undo(_said.clear)


def _observe_instance(original: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Asked once while a model is made, when all else that decides is known to who asks.

    In the modes that compile nothing (NONE, or STOCK_TORCH_COMPILE, which leaves it to the model
    runner) vLLM does not come to ask.
    """

    def _should_ignore_torch_compile(cls: Any) -> bool:
        ignored = original(cls)
        if probe.active():
            with contained(HOOK):
                said = sys._getframe(1).f_locals
                _record_instance(cls, said.get("dynamic_arg_dims") or {}, _why_not(ignored, said))
        return ignored

    return _should_ignore_torch_compile


def _why_not(ignored: bool, said: dict[str, Any]) -> str:
    if ignored:
        return "the class is marked with @ignore_torch_compile"
    if not said.get("enable_compile", True):
        return "its enable_if says no for this configuration"
    return ""


def _record_instance(cls: Any, asked: dict[str, Any], reason: str) -> None:
    name = f"{cls.__module__}.{cls.__qualname__}"
    if (name, reason) in _said:
        return
    _said.add((name, reason))
    code = getattr(cls.forward, "__code__", None)
    probe.emit(
        Decorated(
            target=name,
            dynamic_dims={argument: _dims(dims) for argument, dims in asked.items()},
            where=None if code is None else userline.of_code(code),
            enabled=not reason,
            reason=reason,
        )
    )


def _dims(asked: Any) -> list[int]:
    """One dimension, a list, or a mapping from dimension to the name that ties it to others."""
    return [asked] if isinstance(asked, int) else [int(dim) for dim in asked]
