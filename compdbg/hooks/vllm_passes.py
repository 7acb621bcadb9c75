"""vLLM's passes: Inductor sees one custom pass, the manager; each pass inside it is recorded by its class.

A class's `__call__` is wrapped when the manager has been configured, so that only the passes that
this configuration uses are touched. A pass that its manager skips for a range is recorded as such.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from typing import Any

from compdbg import probe
from compdbg.hooks import passrun, userline
from compdbg.hooks.base import Patches, contained
from compdbg.hooks.vllm_pieces import range_text
from compdbg.hooks.vllm_targets import PASS_ADDED, PASSES_CALL, PASSES_CONFIGURED

HOOK = "vllm"
_here = threading.local()


def install(patches: Patches) -> None:
    patches.wrap(PASSES_CONFIGURED, lambda original: _then_watch(patches, original))
    patches.wrap(PASS_ADDED, lambda original: _then_watch(patches, original))
    patches.wrap(PASSES_CALL, _with_skipped)


def _then_watch(patches: Patches, original: Callable[..., Any]) -> Callable[..., Any]:
    def configure(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        with contained(HOOK):
            for held in _passes_of(self):
                _watch(patches, type(held))
        return result

    return configure


def _passes_of(manager: Any) -> list[Any]:
    """The passes in its list, and those that it always runs at the end, which are its attributes."""
    held = [*manager.passes, *(value for name, value in vars(manager).items() if name != "passes")]
    return [value for value in held if callable(value) and hasattr(value, "uuid")]


def _watch(patches: Patches, cls: type) -> None:
    owner = next((base for base in cls.__mro__ if "__call__" in vars(base)), None)
    if owner is None or hasattr(vars(owner)["__call__"], "_compdbg_watched"):
        return
    original = vars(owner)["__call__"]
    watched = _recorded(original)
    watched._compdbg_watched = True  # type: ignore[attr-defined]
    patches.put(owner, "__call__", watched)


def _recorded(original: Callable[..., Any]) -> Callable[..., Any]:
    code = getattr(inspect.unwrap(original), "__code__", None)
    where = None if code is None else userline.of_code(code)

    def __call__(self: Any, graph: Any, *args: Any, **kwargs: Any) -> Any:
        outer = getattr(_here, "inside", None)
        if outer is self:
            return original(self, graph, *args, **kwargs)
        _here.inside = self
        try:
            with passrun.observed(graph, _name_of(self), where=where):
                return original(self, graph, *args, **kwargs)
        finally:
            _here.inside = outer

    return __call__


def _name_of(held: Any) -> str:
    """The class; for a plain function in vLLM's wrapping, the function."""
    function = getattr(held, "callable", None)
    return str(getattr(function, "__qualname__", None) or type(held).__name__)


def _with_skipped(original: Callable[..., Any]) -> Callable[..., Any]:
    def __call__(self: Any, graph: Any, *args: Any, **kwargs: Any) -> Any:
        if probe.active():
            with contained(HOOK):
                _record_skipped(self, graph)
        return original(self, graph, *args, **kwargs)

    return __call__


def _record_skipped(manager: Any, graph: Any) -> None:
    from vllm.compilation.passes.inductor_pass import get_pass_context

    sizes = get_pass_context().compile_range
    for held in manager.passes:
        if not held.is_applicable_for_range(sizes):
            running = passrun.begin(graph, _name_of(held))
            running.custom = True
            running.disabled_by = f"is_applicable_for_range: not for {range_text(sizes)}"
            passrun.end(running, None)
