"""vLLM's `@support_torch_compile`: what it asks for, whether a model is compiled, and its AOT artifact."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from compdbg import probe
from compdbg.events import CacheLookup, Decorated
from compdbg.hooks import current, userline, vllm_audit
from compdbg.hooks.base import Patches, contained
from compdbg.hooks.vllm_targets import AOT_LOAD, AOT_VERIFY, SHOULD_IGNORE

HOOK = "vllm"

_here = threading.local()
_said: set[tuple[str, str]] = set()
"""Classes and outcomes that are recorded already: engines make many instances."""
_missed: set[str] = set()


def install(patches: Patches) -> None:
    patches.wrap(SHOULD_IGNORE, _observe_instance)
    patches.wrap(AOT_LOAD, _recorded_load)
    patches.wrap(AOT_VERIFY, _noted_refusal)
    patches.on_undo(_said.clear)
    patches.on_undo(_missed.clear)


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


def _noted_refusal(original: Callable[..., Any]) -> Callable[..., Any]:
    """vLLM refuses an artifact whose traced sources have changed; the reason is only logged."""

    def _verify_source_unchanged(*args: Any, **kwargs: Any) -> Any:
        try:
            return original(*args, **kwargs)
        except RuntimeError as error:
            _here.refusal = str(error)
            raise

    return _verify_source_unchanged


def _recorded_load(original: Callable[..., Any]) -> Callable[..., Any]:
    def _try_load_aot_compiled_fn(model: Any, aot_compilation_path: str, *args: Any, **kwargs: Any) -> Any:
        _here.refusal = ""
        started = time.perf_counter()
        loaded = original(model, aot_compilation_path, *args, **kwargs)
        if probe.active():
            with contained(HOOK):
                elapsed_ms = (time.perf_counter() - started) * 1e3
                _record_lookup(model, aot_compilation_path, loaded, elapsed_ms)
        return loaded

    return _try_load_aot_compiled_fn


def _record_lookup(model: Any, path: str, loaded: Any, duration_ms: float) -> None:
    """The eager backend keeps nothing; with it vLLM looks in vain on every call."""
    if loaded is None and (path in _missed or model.compilation_config.backend == "eager"):
        return
    _missed.add(path)
    there = os.path.exists(path)
    result, reason = _outcome(loaded, there)
    probe.emit(
        CacheLookup(
            layer="vllm",
            result=result,
            key=_key_in(path),
            graph=f"{type(model).__module__}.{type(model).__qualname__}",
            compile_id=current.compile_id(),
            reason=reason,
            bytes=os.path.getsize(path) if there else None,
            duration_ms=duration_ms,
        )
    )
    if loaded is not None:
        vllm_audit.record_loaded(loaded)


def _outcome(loaded: Any, there: bool) -> tuple[str, str]:
    if loaded is not None:
        return "hit", "the model's AOT artifact: neither traced, nor split, nor compiled in this run"
    if not there:
        return "miss", "no AOT artifact was saved for this configuration and model"
    if _here.refusal:
        return "miss", _here.refusal
    return "corrupt", "the AOT artifact is there but could not be loaded; vLLM's log says why"


def _key_in(path: str) -> str:
    """`.../torch_aot_compile/KEY/rank_0_0/model`."""
    parts = path.split(os.sep)
    return parts[-3] if len(parts) >= 3 else path
