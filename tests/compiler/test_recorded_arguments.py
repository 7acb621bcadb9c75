"""What torch noted about an operator's arguments fits it, also where a fusion put another in its place.

torch 2.11 reads the note when it makes code, and stops at one that is another operator's.
"""

from __future__ import annotations

import pytest
import torch
from torch.fx.operator_schemas import normalize_function

import tests.compiler.passes_only  # noqa: F401
from compdbg.compiler import CompilationConfig, set_forward_context, use_config
from fixtures.models import CausalLM, ModelConfig
from fixtures.models.metadata import metadata_of

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")]
TINY = ModelConfig(layers=1, width=128, ffn=256, heads=4, kv_heads=2, head_dim=32)
FLAGS = ("fuse_norm_quant", "fuse_act_quant", "fuse_attn_quant", "fuse_rope_kvcache", "fuse_qkv_projection")
NOTE = "eager_input_vals"


def fitting(graph):
    """How many operators fusions have put in; no note is of another operator than the one it stands at."""
    fused = 0
    for node in graph.nodes:
        if not isinstance(node.target, torch._ops.OpOverload):
            continue
        fused += node.target.namespace == "compdbg"
        if NOTE in node.meta:
            args, kwargs = node.meta[NOTE]
            assert normalize_function(node.target, args, kwargs) is not None, node.format_node()
    return fused


@pytest.mark.parametrize(
    ("changes", "flags"),
    [
        ({"quant": "static_fp8"}, FLAGS),
        ({"qk_norm": True}, ("enable_qk_norm_rope_fusion",)),
    ],
    ids=["quantised", "norms of heads"],
)
def test_notes_fit(changes, flags):
    counts = []
    compilation = CompilationConfig(
        backend="passes-only",
        splitting_ops=[],
        pass_config=dict.fromkeys(flags, True),
        inductor_passes=[lambda graph: counts.append(fitting(graph))],
        disable_cache=True,
    )
    with use_config(compilation):
        model = CausalLM.random(TINY.with_(**changes), dtype=torch.bfloat16)
    metadata = metadata_of([(0, 17, [1, 2])], 2)
    with torch.inference_mode(), set_forward_context(metadata):
        model(torch.arange(17), torch.arange(17), metadata.slots)
    assert counts
    assert counts[0] > 0
