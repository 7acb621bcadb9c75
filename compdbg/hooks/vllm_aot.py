"""vLLM's AOT artifact of a whole model: found or not, and why not; made, and kept."""

from __future__ import annotations

import inspect
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from compdbg import probe
from compdbg.events import CacheLookup, FrameEnd, FrameStart
from compdbg.events.guards import LOADED
from compdbg.hooks import cachekeys, current, userline
from compdbg.hooks.base import Patches, contained
from compdbg.hooks.vllm_keys import LAYER, Asked, Making, asked_by, tell_work
from compdbg.hooks.vllm_targets import AOT_LOAD, AOT_VERIFY

HOOK = "vllm"
WHOLE = "the model's AOT artifact: neither traced, nor split, nor compiled in this run"


class _Here(threading.local):
    refusal = ""
    """Why the artifact that was found is not used."""
    making: Making | None = None


_here = _Here()
_missed: set[str] = set()


def install(patches: Patches) -> None:
    patches.wrap(AOT_LOAD, _recorded_load)
    patches.wrap(AOT_VERIFY, _noted_refusal)
    patches.on_undo(_missed.clear)


def note_work(graph: str, piece: str) -> None:
    """A piece of the artifact that is being made was compiled."""
    if _here.making is not None:
        _here.making.note(graph, piece)


def all_pieces_made() -> None:
    making, _here.making = _here.making, None
    if making is not None:
        making.keep()


def _noted_refusal(original: Callable[..., Any]) -> Callable[..., Any]:
    """vLLM refuses an artifact whose traced sources have changed; it does not say which."""

    def _verify_source_unchanged(source_info: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return original(source_info, *args, **kwargs)
        except RuntimeError as error:
            _here.refusal = str(error)
            with contained(HOOK):
                _here.refusal = _changed_sources(source_info) or _here.refusal
            raise

    return _verify_source_unchanged


def _changed_sources(source_info: Any) -> str:
    """`source changed since it was made: model.py, layers.py`."""
    changed: list[str] = []
    contents = {inspect.getfile(sys.modules[s.module]): s.content for s in source_info.inlined_sources}
    for path, content in contents.items():
        with open(path) as file:
            if file.read() != content:
                changed.append(os.path.basename(path))
    return f"source changed since it was made: {', '.join(sorted(changed))}" if changed else ""


def _recorded_load(original: Callable[..., Any]) -> Callable[..., Any]:
    def _try_load_aot_compiled_fn(model: Any, aot_compilation_path: str, *args: Any, **kwargs: Any) -> Any:
        _here.refusal = ""
        started = time.perf_counter()
        loaded = original(model, aot_compilation_path, *args, **kwargs)
        if probe.active():
            with contained(HOOK):
                elapsed_ms = (time.perf_counter() - started) * 1e3
                _record(model, aot_compilation_path, loaded, elapsed_ms)
        return loaded

    return _try_load_aot_compiled_fn


def _record(model: Any, path: str, loaded: Any, duration_ms: float) -> None:
    """The eager backend keeps nothing; with it vLLM looks in vain on every call."""
    if loaded is None and (path in _missed or model.compilation_config.backend == "eager"):
        return
    _missed.add(path)
    there = os.path.exists(path)
    asked = asked_by(model, _key_in(path))
    result, more = _outcome(asked, loaded, there)
    probe.emit(
        CacheLookup(
            layer=LAYER,
            result=result,
            key=asked.key,
            graph=f"{type(model).__module__}.{type(model).__qualname__}",
            compile_id=current.compile_id(),
            bytes=os.path.getsize(path) if there else None,
            duration_ms=duration_ms,
            factors=probe.payload(
                "\n".join(f"[{h}] {name}: {text}" for name, (h, text) in asked.factors.items())
            ),
            place=asked.place,
            **more,
        )
    )
    if loaded is not None:
        _record_frame(model, loaded, duration_ms)
        tell_work(asked, str(getattr(model, "_compile_tag", "")) or "backbone")
    else:
        _here.making = Making(asked)


def _outcome(asked: Asked, loaded: Any, there: bool) -> tuple[str, dict[str, Any]]:
    if loaded is not None:
        return "hit", {"reason": WHOLE}
    if there and not _here.refusal:
        reason = "the AOT artifact is there but could not be loaded; vLLM's log says why"
        return "corrupt", {"reason": reason}
    near = cachekeys.nearest(LAYER, asked.place, asked.key, asked.factors, asked.folder)
    if near is None:
        return "miss", {"reason": _here.refusal or "no AOT artifact was saved for this model"}
    known = cachekeys.told(near, asked.folder)
    return "miss", {"reason": _here.refusal or _why(asked, near), **known}


def _why(asked: Asked, near: cachekeys.Nearest) -> str:
    if near.changes:
        names = ", ".join(change.name for change in near.changes[:4])
        return f"differs from the nearest earlier key in {names}"
    if near.record.folder != asked.folder:
        return f"this key was stored in {near.record.folder}; vLLM looks in {asked.folder} now"
    return "an earlier run stored this key; its artifact is gone"


def _record_frame(model: Any, loaded: Any, duration_ms: float) -> None:
    """A frame that Dynamo does not see in this run, and that runs compiled."""
    code = loaded._artifacts.original_code
    frame = current.frame_key(code)
    name = f"{type(model).__qualname__}.{code.co_name}"
    probe.emit(FrameStart(frame=frame, compile_id=LOADED, where=userline.of_code(code), name=name))
    probe.emit(
        FrameEnd(
            frame=frame,
            compile_id=LOADED,
            result="compiled",
            reason="in an earlier run; loaded from vLLM's AOT cache",
            duration_ms=round(duration_ms, 3),
        )
    )


def _key_in(path: str) -> str:
    """`.../torch_aot_compile/KEY/rank_0_0/model`."""
    parts = path.split(os.sep)
    return parts[-3] if len(parts) >= 3 else path
