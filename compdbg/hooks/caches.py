"""torch's caches of compiled artifacts: each look into the AOT and the FX-graph cache.

Hit, miss, bypass or disabled, with the key, its components, and on a miss what differs from the
nearest earlier key. Also what makes a cache useless: a folder that can't be written, a corrupt entry.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from compdbg import probe
from compdbg.events import CacheLookup
from compdbg.hooks import artifacts
from compdbg.hooks.base import Hook, Part, Patches, Target, contained
from compdbg.hooks.cachelookups import (
    Found,
    components,
    describe,
    finish_miss,
    readable,
    record_hit,
    remember_output,
)
from compdbg.hooks.cachewrites import WRITE_AOT, WRITE_FX, watch_writes
from compdbg.hooks.codegen import record_output
from compdbg.hooks.current import compile_id, graph_base, graph_name
from compdbg.hooks.makings import makings_of

NAME = "caches"
_AOT = "torch._functorch._aot_autograd.autograd_cache:"
_FX = "torch._inductor.codecache:FxGraphCache."

TRY_LOAD = Target(_AOT + "AOTAutogradCache.try_load", ("mod",))
PICKLER_HASH = Target(_AOT + "AOTAutogradCachePickler.get_hash", ("obj",))
SANITIZE = Target(_AOT + "sanitize_gm_for_cache", ("gm",))
PREPARE_KEY = Target(_FX + "prepare_key", ("gm",))
LOAD = Target(_FX + "load_with_key", ("key", "debug_lines", "is_backward"))
INSTANT = Target("torch._dynamo.utils:ChromiumEventLogger.log_instant_event", ("event_name", "metadata"))
MAIN = Target("torch._inductor.compile_fx:_compile_fx_main", ("model_",))
INNER = Target("torch._inductor.compile_fx:_compile_fx_inner", ("gm", "graph_kwargs"))

_here = threading.local()


def _around_try_load(original: Callable[..., Any]) -> Callable[..., Any]:
    def try_load(mod: Any, *args: Any, **kwargs: Any) -> Any:
        if not probe.active():
            return original(mod, *args, **kwargs)
        _here.aot_asked = True
        _here.details = _here.told = None
        started = time.perf_counter()
        result = original(mod, *args, **kwargs)
        with contained(NAME):
            loaded = result[0] if isinstance(result, tuple) else result  # torch 2.11 gives no config
            _record_aot(mod, loaded is not None, (time.perf_counter() - started) * 1e3)
        _here.details = _here.told = None
        return result

    return try_load


def _record_aot(mod: Any, hit: bool, duration_ms: float) -> None:
    told: dict[str, Any] = getattr(_here, "told", None) or {}
    state = told.get("cache_state") or ("hit" if hit else "miss")
    lines = told.get("components") or ([] if state != "miss" else _aot_components(mod))
    makings = makings_of(getattr(mod, "gm", mod))
    found = Found("aot", told.get("key"), readable(lines), graph_base(), duration_ms, makings)
    if state == "hit":
        record_hit(found)
    elif state == "bypass":
        reason = told.get("cache_bypass_reason") or "not said"
        hard = bool(told.get("cache_bypass_hard_exception"))
        kind = told.get("cache_bypass_exception_type")
        probe.emit(describe(found, "bypass", f"{kind}: {reason}" if hard else str(reason)))
    else:
        finish_miss(found, told, _entries("aot", found.key))


def _aot_components(mod: Any) -> list[str]:
    """torch leaves the components of an AOT key out; worked out again for a miss only."""
    details = getattr(_here, "details", None)
    if details is None:
        return []
    pickler, obj = details
    cache = sys.modules["torch._functorch._aot_autograd.autograd_cache"]
    with cache.sanitize_gm_for_cache(getattr(mod, "gm", mod)):
        return components(pickler, obj)


def _around_get_hash(original: Callable[..., Any]) -> Callable[..., Any]:
    def get_hash(self: Any, obj: Any) -> Any:
        if type(obj).__name__ == "AOTAutogradCacheDetails":
            _here.details = (self, obj)
        return original(self, obj)

    return get_hash


def _around_instant(original: Callable[..., Any]) -> Callable[..., Any]:
    def log_instant_event(
        self: Any, event_name: str, time_ns: int, metadata: Any = None, *rest: Any, **more: Any
    ) -> Any:
        if metadata and event_name.startswith("autograd_cache_"):
            _here.told = metadata
        return original(self, event_name, time_ns, metadata, *rest, **more)

    return log_instant_event


def _around_prepare_key(original: Callable[..., Any]) -> Callable[..., Any]:
    def prepare_key(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        if probe.active():
            _here.fx_asked = True
            _here.makings = None
            with contained(NAME):
                _here.makings = makings_of(args[0] if args else kwargs["gm"])
                key_info, info = result
                if key_info is None:
                    found = Found("fx", None, [], graph_name(), 0.0)
                    probe.emit(describe(found, "bypass", str(info.get("cache_bypass_reason") or "not said")))
        return result

    return prepare_key


def _around_load(original: Callable[..., Any]) -> Callable[..., Any]:
    def load_with_key(key: str, debug_lines: list[str], *args: Any, **kwargs: Any) -> Any:
        if not probe.active():
            return original(key, debug_lines, *args, **kwargs)
        _here.fx_asked = True
        started = time.perf_counter()
        result = original(key, debug_lines, *args, **kwargs)
        with contained(NAME):
            backward = kwargs.get("is_backward", args[3] if len(args) > 3 else False)
            name = graph_base() + (" backward" if backward else "")
            ms = (time.perf_counter() - started) * 1e3
            makings = _here.__dict__.pop("makings", None)
            _record_fx(Found("fx", key, readable(debug_lines), name, ms, makings), result)
        return result

    return load_with_key


def _record_fx(found: Found, result: Any) -> None:
    compiled, info = result
    files = _entries("fx", found.key)
    if compiled is None:
        finish_miss(found, info, files)
        return
    _here.fx_hit = True
    record_hit(found, sum(size for _, size in files))
    record_output(found.graph, compiled, cached=True)


def _entries(layer: str, key: str | None) -> list[tuple[str, int]]:
    """The files of a key, as torch finds them, with their sizes."""
    if key is None:
        return []
    if layer == "fx":
        cache = sys.modules["torch._inductor.codecache"].FxGraphCache
    else:
        cache = sys.modules["torch._functorch._aot_autograd.autograd_cache"].AOTAutogradCache
    folder = cache._get_tmp_dir_for_key(key)
    try:
        return [(e.path, e.stat().st_size) for e in os.scandir(folder) if not e.name.startswith(".")]
    except OSError:
        return []


def _around_main(original: Callable[..., Any]) -> Callable[..., Any]:
    def compile_fx_main(*args: Any, **kwargs: Any) -> Any:
        if not probe.active():
            return original(*args, **kwargs)
        _here.aot_asked = False
        artifacts.forget(graph_base())
        result = original(*args, **kwargs)
        if not _here.aot_asked:
            with contained(NAME):
                _record_disabled("aot", graph_base())
        return result

    return compile_fx_main


def _around_inner(original: Callable[..., Any]) -> Callable[..., Any]:
    def compile_fx_inner(*args: Any, **kwargs: Any) -> Any:
        if not probe.active():
            return original(*args, **kwargs)
        _here.fx_asked = _here.fx_hit = False
        result = original(*args, **kwargs)
        with contained(NAME):
            if not _here.fx_asked:
                _record_disabled("fx", graph_name())
            if not _here.fx_hit:
                record_output(graph_name(), result)
                remember_output(graph_name(), result)
        return result

    return compile_fx_inner


def _record_disabled(layer: str, graph: str) -> None:
    reason = _who_disabled(layer)
    lookup = CacheLookup(layer=layer, result="disabled", graph=graph, compile_id=compile_id(), reason=reason)
    probe.emit(lookup)


def _who_disabled(layer: str) -> str:
    """The setting that keeps torch from looking into the cache."""
    compiler = getattr(sys.modules.get("torch.compiler"), "config", None)
    inductor = sys.modules.get("torch._inductor.config")
    functorch = sys.modules.get("torch._functorch.config")
    if getattr(compiler, "force_disable_caches", False) or getattr(inductor, "force_disable_caches", False):
        return "force_disable_caches is set"
    if layer == "aot" and not getattr(functorch, "enable_autograd_cache", True):
        return "torch._functorch.config.enable_autograd_cache is off"
    if layer == "fx" and not getattr(inductor, "fx_graph_cache", True):
        return "torch._inductor.config.fx_graph_cache is off"
    if layer == "fx" and getattr(functorch, "bundled_autograd_cache", False):
        return "the AOT cache holds the artifact itself (bundled_autograd_cache)"
    return "torch does not cache this kind of compile"


def _install_dynamo(patches: Patches) -> None:
    patches.wrap(INSTANT, _around_instant)


def _install_aot(patches: Patches) -> None:
    patches.wrap(TRY_LOAD, _around_try_load)
    patches.wrap(PICKLER_HASH, _around_get_hash)
    watch_writes(patches, WRITE_AOT, "aot")


def _install_fx(patches: Patches) -> None:
    patches.wrap(PREPARE_KEY, _around_prepare_key)
    patches.wrap(LOAD, _around_load)
    watch_writes(patches, WRITE_FX, "fx")


def _install_inductor(patches: Patches) -> None:
    patches.wrap(MAIN, _around_main)
    patches.wrap(INNER, _around_inner)


HOOK = Hook(
    NAME,
    (
        Part("torch._dynamo.utils", _install_dynamo),
        Part("torch._functorch._aot_autograd.autograd_cache", _install_aot),
        Part("torch._inductor.codecache", _install_fx),
        Part("torch._inductor.compile_fx", _install_inductor),
    ),
    (TRY_LOAD, PICKLER_HASH, SANITIZE, PREPARE_KEY, LOAD, INSTANT, MAIN, INNER, WRITE_FX, WRITE_AOT),
    proof=(CacheLookup,),
)
