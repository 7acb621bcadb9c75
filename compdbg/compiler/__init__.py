"""The whole pipeline of a serving engine's compiler, for models of one's own.

Dynamo traces once and its guards are dropped (`decorators`, `wrapper`); the graph is split at
operators that stay as they are (`splitting`), equal pieces are compiled once (`twins`) for ranges
and sizes (`piecewise_backend`) by Inductor with passes of our own (`passes`), captured
(`cuda_graph`) and kept on disk (`caching`). Every decision is an event.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from compdbg.compiler.config import (
        CompilationConfig,
        CompilationMode,
        CUDAGraphMode,
        DynamicShapesConfig,
        DynamicShapesType,
        PassConfig,
    )
    from compdbg.compiler.decorators import ignore_torch_compile, support_torch_compile
    from compdbg.compiler.effective import current_config, use_config
    from compdbg.compiler.forward_context import set_forward_context
    from compdbg.compiler.ops.projections import repack_weights
    from compdbg.compiler.passes.fusion.fusion_pass import FusionPass, FusionPattern
    from compdbg.compiler.passes.inductor_pass import InductorPass
    from compdbg.compiler.warmup import warm_up

_HOMES = {
    "CUDAGraphMode": "config",
    "CompilationConfig": "config",
    "CompilationMode": "config",
    "ConfigError": "config_values",
    "DynamicShapesConfig": "config",
    "DynamicShapesType": "config",
    "PassConfig": "config",
    "FusionPass": "passes.fusion.fusion_pass",
    "FusionPattern": "passes.fusion.fusion_pass",
    "InductorPass": "passes.inductor_pass",
    "current_config": "effective",
    "ignore_torch_compile": "decorators",
    "repack_weights": "ops.projections",
    "set_forward_context": "forward_context",
    "support_torch_compile": "decorators",
    "use_config": "effective",
    "warm_up": "warmup",
}

__all__ = [
    "CUDAGraphMode", "CompilationConfig", "CompilationMode", "DynamicShapesConfig", "DynamicShapesType",
    "FusionPass", "FusionPattern", "InductorPass", "PassConfig", "current_config", "ignore_torch_compile",
    "repack_weights", "set_forward_context", "support_torch_compile", "use_config", "warm_up",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Parts are imported on first use: configuration alone does not import torch."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'compdbg.compiler' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"compdbg.compiler.{home}"), name)
    globals()[name] = value
    return value
