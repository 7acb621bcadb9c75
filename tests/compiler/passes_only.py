"""A backend for tests: all of Inductor's passes and ours over each piece, which then runs op by op.

What passes do to a model is seen, and what it computes after them, without a C++ compiler.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from compdbg.compiler.compiler_interface import CompilerInterface, _own_tracing_context, register_compiler
from compdbg.compiler.passes.at_stage import run_post_grad_passes


class PassesOnly(CompilerInterface):
    name = "passes-only"
    uses_inductor = True
    keeps = False

    def compile(self, graph: fx.GraphModule, example_inputs: list[Any], options: dict[str, Any]) -> Any:
        from torch._inductor.compile_fx import compile_fx

        caches_off = torch._inductor.config.patch(force_disable_caches=True)
        with _own_tracing_context(graph), caches_off:
            return compile_fx(
                graph, example_inputs, inner_compile=run_post_grad_passes, config_patches=options
            )


register_compiler("passes-only", lambda config: PassesOnly())
