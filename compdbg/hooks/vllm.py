"""vLLM's compile pipeline, stage by stage, observed from outside: nothing of vLLM is edited.

Decorator, split, pieces and their caches, dispatch and captures, configuration, dropped guards.
What vLLM's passes do to the graphs is seen by the hooks that watch everyone's passes and patterns.
A program without vLLM pays for this table only: the stages' own modules are loaded with vLLM's.
"""

from __future__ import annotations

import importlib

from compdbg.hooks.base import Hook, Part, Patches
from compdbg.hooks.vllm_targets import TARGETS


def _part(module: str, ours: str, install: str = "install") -> Part:
    """When vLLM's `module` is imported, call `install` of our module `ours`."""

    def load_and_install(patches: Patches) -> None:
        getattr(importlib.import_module(f"compdbg.hooks.{ours}"), install)(patches)

    return Part(module, load_and_install)


HOOK = Hook(
    "vllm",
    parts=(
        _part("vllm.platforms.interface", "vllm_environ"),
        _part("vllm.config.compilation", "vllm_config", "install_fields"),
        _part("vllm.config.vllm", "vllm_config", "install_resolution"),
        _part("vllm.compilation.decorators", "vllm_decorator"),
        _part("vllm.compilation.decorators", "vllm_aot"),
        _part("vllm.compilation.wrapper", "vllm_audit"),
        _part("vllm.compilation.caching", "vllm_loaded"),
        _part("vllm.compilation.backends", "vllm_split"),
        _part("vllm.compilation.backends", "vllm_pieces", "install_manager"),
        _part("vllm.compilation.piecewise_backend", "vllm_pieces", "install_backend"),
        _part("vllm.compilation.piecewise_backend", "vllm_dispatch", "install_pieces"),
        _part("vllm.compilation.passes.pass_manager", "vllm_passes"),
        _part("vllm.compilation.cuda_graph", "vllm_capture"),
        _part("vllm.v1.cudagraph_dispatcher", "vllm_dispatch", "install_dispatcher"),
    ),
    targets=TARGETS,
)
