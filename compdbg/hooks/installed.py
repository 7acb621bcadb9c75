"""The list of hooks, and how a session installs and removes them.

A hook of ours is imported when the program imports the first module that it patches, not before:
a process that only imports torch (Inductor starts several to probe the CPU) pays for none of them.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Collection

from compdbg import probe
from compdbg.events import HookState
from compdbg.hooks.base import Hook, Patches, install_part, report_error
from compdbg.hooks.importing import forget, on_import
from compdbg.hooks.third_party import arm_third_party, third_party_names
from compdbg.record import options

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
    "splits": "compdbg.hooks.splits",
    "cudagraphs": "compdbg.hooks.cudagraphs",
    "cuda_captures": "compdbg.hooks.cuda_captures",
    "trace_log": "compdbg.hooks.trace_log",
    "torch_config": "compdbg.hooks.torch_config",
    "aot_frames": "compdbg.hooks.aot_frames",
    "vllm": "compdbg.hooks.vllm",
    "ops": "compdbg.hooks.ops",
    "compare": "compdbg.hooks.compare",
}
"""Hook name -> the module of ours that holds its `HOOK`."""

ON_REQUEST: dict[str, str] = {"ops": "check_ops", "compare": "compare"}
"""Hook name -> the option without which it is left out."""

WAITS_FOR: dict[str, tuple[str, ...]] = {
    "pattern_matcher": ("torch._inductor.pattern_matcher",),
    "fusion_config": (
        "torch._inductor.config",
        "torch._dynamo.output_graph",
        "torch.fx.passes.graph_transform_observer",
    ),
    "requests": (
        "torch._dynamo.exc",
        "torch._dynamo.convert_frame",
        "torch._dynamo.eval_frame",
        "torch._dynamo.decorators",
    ),
    "dynamo": (
        "torch._dynamo.metrics_context",
        "torch._dynamo.convert_frame",
        "torch._dynamo.symbolic_convert",
    ),
    "guards": (
        "torch._dynamo",
        "torch._dynamo.guards",
        "torch._dynamo.output_graph",
        "torch._dynamo.variables.tensor",
        "torch._dynamo.variables.torch",
        "torch.fx.experimental.symbolic_shapes",
    ),
    "symbols": ("torch._dynamo.variables.builder", "torch.fx.experimental.symbolic_shapes"),
    "caches": (
        "torch._dynamo.utils",
        "torch._functorch._aot_autograd.autograd_cache",
        "torch._inductor.codecache",
        "torch._inductor.compile_fx",
    ),
    "clones": ("torch._inductor.fx_passes.reinplace", "torch._inductor.compile_fx"),
    "graphs": (
        "torch._dynamo.output_graph",
        "torch._functorch._aot_autograd.graph_compile",
        "torch._inductor.compile_fx",
    ),
    "passes": ("torch.fx.passes.graph_transform_observer",),
    "spans": ("torch", "torch._dynamo.utils"),
    "splits": ("torch.fx.passes.split_module",),
    "cuda_captures": ("torch.cuda.graphs",),
    "cudagraphs": ("torch._inductor.cudagraph_utils", "torch._inductor.cudagraph_trees"),
    "trace_log": ("torch",),
    "torch_config": ("torch", "torch._dynamo.eval_frame", "torch._dynamo.output_graph"),
    "ops": ("torch",),
    "compare": ("torch", "torch._dynamo.output_graph", "compdbg.compiler.backends"),
    "aot_frames": (
        "torch._dynamo.convert_frame",
        "torch._dynamo.aot_compile",
        "torch._dynamo.metrics_context",
    ),
    "vllm": (
        "vllm.platforms.interface",
        "vllm.config.compilation",
        "vllm.config.vllm",
        "vllm.compilation.decorators",
        "vllm.compilation.wrapper",
        "vllm.compilation.caching",
        "vllm.compilation.backends",
        "vllm.compilation.piecewise_backend",
        "vllm.compilation.passes.pass_manager",
        "vllm.compilation.cuda_graph",
        "vllm.v1.cudagraph_dispatcher",
    ),
}
"""Hook name -> the modules of its parts: the first that the program imports loads the hook."""


def hook_names() -> list[str]:
    """Every hook that can be switched off: ours, and those of other packages."""
    return [*MODULES, *third_party_names()]


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
    failed: set[str] = set()
    for name in MODULES:
        if name in skip:
            probe.emit(HookState(hook=name, state="unused", detail="switched off"))
            continue
        if (option := ON_REQUEST.get(name)) and not getattr(options.current(), option):
            continue
        for module in WAITS_FOR.get(name) or _modules_of(name):
            callback = functools.partial(_install, name, module, done, failed)
            waiting.append(callback)
            on_import(module, callback)
    arm_third_party(skip, done, waiting)

    def remove() -> None:
        for callback in waiting:
            forget(callback)
        while done:
            done.pop().undo()

    return remove


def _modules_of(name: str) -> list[str]:
    """What the hook itself says that it patches."""
    try:
        return list(dict.fromkeys(part.module for part in load_hook(name).parts))
    except Exception as error:
        report_error(name, error)
        return []


def _install(name: str, module: str, done: list[Patches], failed: set[str]) -> None:
    """The program has imported `module`: install what the hook has for it."""
    if name in failed:
        return
    try:
        hook = load_hook(name)
    except Exception as error:
        failed.add(name)
        report_error(name, error)
        probe.emit(HookState(hook=name, state="absent", detail=f"{type(error).__name__}: {error}"))
        return
    done.extend(install_part(hook, part) for part in hook.parts if part.module == module)
