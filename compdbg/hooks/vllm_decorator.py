"""vLLM's `@support_torch_compile`: what it asks for, whether a model is compiled, and its AOT artifact."""

from __future__ import annotations

import functools
import os
import threading
import time
from collections.abc import Callable
from typing import Any

from compdbg import probe
from compdbg.events import CacheLookup, Decorated
from compdbg.hooks import current, userline, vllm_audit
from compdbg.hooks.base import Patches, contained
from compdbg.hooks.vllm_targets import AOT_LOAD, AOT_VERIFY, DECORATE

HOOK = "vllm"

_here = threading.local()


def install(patches: Patches) -> None:
    patches.wrap(DECORATE, functools.partial(_recorded_decoration, patches))
    patches.wrap(AOT_LOAD, _recorded_load)
    patches.wrap(AOT_VERIFY, _noted_refusal)


def _recorded_decoration(patches: Patches, original: Callable[..., Any]) -> Callable[..., Any]:
    def _support_torch_compile(cls: Any, dynamic_arg_dims: Any, *args: Any, **kwargs: Any) -> Any:
        before = cls.__init__
        result = original(cls, dynamic_arg_dims, *args, **kwargs)
        if cls.__init__ is not before:
            with contained(HOOK):
                _watch_instances(patches, cls, _dims(dynamic_arg_dims))
        return result

    return _support_torch_compile


def _dims(asked: dict[str, Any]) -> dict[str, list[int]]:
    """vLLM takes one dimension, a list, or a mapping from dimension to the name that ties it to others."""
    return {name: [dims] if isinstance(dims, int) else [int(d) for d in dims] for name, dims in asked.items()}


def _watch_instances(patches: Patches, cls: Any, dims: dict[str, list[int]]) -> None:
    """Whether a model is compiled is decided when it is made; said once for each outcome of a class."""
    original = cls.__init__
    said: set[str] = set()

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        if probe.active():
            with contained(HOOK):
                reason = _why_not(self)
                if reason not in said:
                    said.add(reason)
                    probe.emit(_decorated(type(self), dims, reason))

    patches.put(cls, "__init__", __init__)


def _decorated(cls: Any, dims: dict[str, list[int]], reason: str) -> Decorated:
    code = getattr(cls.forward, "__code__", None)
    return Decorated(
        target=f"{cls.__module__}.{cls.__qualname__}",
        dynamic_dims=dims,
        where=None if code is None else userline.of_code(code),
        enabled=not reason,
        reason=reason,
    )


def _why_not(model: Any) -> str:
    """Why this instance runs uncompiled, in the order in which vLLM decides; empty if it does not."""
    if not getattr(model, "do_not_compile", False):
        return ""
    mode = getattr(model.compilation_config.mode, "name", str(model.compilation_config.mode))
    if mode == "NONE":
        return "compilation is off (mode NONE)"
    if mode == "STOCK_TORCH_COMPILE":
        return "mode STOCK_TORCH_COMPILE leaves it to the model runner to compile"
    if getattr(type(model), "_ignore_compile_vllm", False):
        return "the class is marked with @ignore_torch_compile"
    return "its enable_if says no for this configuration"


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
                if not _worth_saying(model, aot_compilation_path, loaded):
                    return loaded
                _record_lookup(model, aot_compilation_path, loaded, (time.perf_counter() - started) * 1e3)
                if loaded is not None:
                    vllm_audit.record_loaded(model, loaded)
        return loaded

    return _try_load_aot_compiled_fn


_missed: set[str] = set()


def _worth_saying(model: Any, path: str, loaded: Any) -> bool:
    """The eager backend keeps nothing, and with it vLLM looks in vain on every call."""
    if loaded is None and (path in _missed or model.compilation_config.backend == "eager"):
        return False
    _missed.add(path)
    return True


def _record_lookup(model: Any, path: str, loaded: Any, duration_ms: float) -> None:
    there = os.path.exists(path)
    if loaded is not None:
        result, reason = (
            "hit",
            "the model's AOT artifact: neither traced, nor split, nor compiled in this run",
        )
    elif not there:
        result, reason = "miss", "no AOT artifact was saved for this configuration and model"
    else:
        result = "miss" if _here.refusal else "corrupt"
        reason = _here.refusal or "the AOT artifact is there but could not be loaded; vLLM's log says why"
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


def _key_in(path: str) -> str:
    """`.../torch_aot_compile/KEY/rank_0_0/model`."""
    parts = path.split(os.sep)
    return parts[-3] if len(parts) >= 3 else path
