"""What Inductor is told for one piece and one range, beyond its own settings."""

from __future__ import annotations

from typing import Any

from compdbg.compiler.config import CompilationConfig
from compdbg.compiler.config_values import shown
from compdbg.compiler.partitions import partition_options
from compdbg.compiler.ranges import STATIC, Range

TUNED = {"max_autotune": True, "coordinate_descent_tuning": True}
"""Inductor's settings for a size of its own that is to be tuned: with one row, a product is no longer one."""
_LONGEST = 200


def inductor_options(config: CompilationConfig, compile_range: Range) -> dict[str, Any]:
    """Patches of Inductor's configuration, the user's own last."""
    tuned = config.tune_single_sizes and compile_range.is_single and compile_range != STATIC
    return {
        **partition_options(config),
        **(TUNED if tuned else {}),
        **config.inductor_compile_config,
    }


def options_said(config: CompilationConfig, compile_range: Range) -> dict[str, str]:
    """The same as texts, for who records."""
    options = inductor_options(config, compile_range)
    return {name: shown(value)[:_LONGEST] for name, value in options.items()}
