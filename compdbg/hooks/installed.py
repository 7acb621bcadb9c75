"""The list of hooks, and how a session installs and removes them."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Collection

from compdbg import probe
from compdbg.events import HookState
from compdbg.hooks.base import Hook, Patches, install_part, report_error
from compdbg.hooks.importing import forget, on_import

MODULES: dict[str, str] = {
    "pattern_matcher": "compdbg.hooks.pattern_matcher",
    "fusion_config": "compdbg.hooks.fusion_config",
    "requests": "compdbg.hooks.requests",
    "dynamo": "compdbg.hooks.dynamo",
    "guards": "compdbg.hooks.guards",
    "symbols": "compdbg.hooks.symbols",
    "caches": "compdbg.hooks.caches",
    "clones": "compdbg.hooks.clones",
    "graphs": "compdbg.hooks.graphs",  # wraps what those before it wrap, so that they know the name
    "passes": "compdbg.hooks.passes",
    "spans": "compdbg.hooks.spans",
    "cudagraphs": "compdbg.hooks.cudagraphs",
    "trace_log": "compdbg.hooks.trace_log",
    "aot_frames": "compdbg.hooks.aot_frames",
    "vllm": "compdbg.hooks.vllm",
}
"""Hook name -> the module of ours that holds its `HOOK`; imported after torch is."""


def load_hook(name: str) -> Hook:
    hook = importlib.import_module(MODULES[name]).HOOK
    assert isinstance(hook, Hook)
    return hook


def install_all(skip: Collection[str] = ()) -> Callable[[], None]:
    """Arm every hook but those in `skip`; each part goes in when its module is imported.

    Returns what removes them all again.
    """
    done: list[Patches] = []
    waiting: list[Callable[[], None]] = []
    for name in MODULES:
        if name in skip:
            probe.emit(HookState(hook=name, state="unused", detail="switched off"))
            continue
        try:
            hook = load_hook(name)
        except Exception as error:
            report_error(name, error)
            probe.emit(HookState(hook=name, state="absent", detail=f"{type(error).__name__}: {error}"))
            continue
        for part in hook.parts:
            callback = functools.partial(lambda h, p: done.append(install_part(h, p)), hook, part)
            waiting.append(callback)
            on_import(part.module, callback)

    def remove() -> None:
        for callback in waiting:
            forget(callback)
        while done:
            done.pop().undo()

    return remove
