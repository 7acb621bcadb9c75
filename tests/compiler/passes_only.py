"""A backend for tests: all of Inductor's passes and ours over each piece, which then runs op by op.

What passes do to a model is seen, and what it computes after them, without a C++ compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import fx

from compdbg.compiler import CompilationConfig, set_forward_context, use_config
from compdbg.compiler.compiler_interface import CompilerInterface, _own_tracing_context, register_compiler
from compdbg.compiler.passes.at_stage import run_post_grad_passes
from fixtures.models import CausalLM, ModelConfig
from fixtures.models.metadata import metadata_of

TINY = ModelConfig(layers=1, width=128, ffn=256, heads=4, kv_heads=2, head_dim=32)
FLAGS = ("fuse_norm_quant", "fuse_act_quant", "fuse_attn_quant", "fuse_rope_kvcache", "fuse_qkv_projection")


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


def after_fusions(
    changes: Mapping[str, Any], flags: Iterable[str], look: Callable[[fx.Graph], Any]
) -> list[Any]:
    """What is seen of each graph of a tiny decoder, unsplit, after these fusions."""
    seen: list[Any] = []
    compilation = CompilationConfig(
        backend="passes-only",
        splitting_ops=[],
        pass_config=dict.fromkeys(flags, True),
        inductor_passes=[lambda graph: seen.append(look(graph))],
        disable_cache=True,
    )
    with use_config(compilation):
        model = CausalLM.random(TINY.with_(**changes), dtype=torch.bfloat16)
    metadata = metadata_of([(0, 17, [1, 2])], 2)
    with torch.inference_mode(), set_forward_context(metadata):
        model(torch.arange(17), torch.arange(17), metadata.slots)
    return seen
