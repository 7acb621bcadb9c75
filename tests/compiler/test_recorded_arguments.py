"""What torch noted about an operator's arguments fits it, also where a fusion put another in its place.

torch 2.11 reads the note when it makes code, and stops at one that is another operator's.
"""

from __future__ import annotations

import pytest
import torch
from torch.fx.operator_schemas import normalize_function

from tests.compiler.passes_only import FLAGS, after_fusions

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")]
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
    counts = after_fusions(changes, flags, fitting)
    assert counts
    assert counts[0] > 0
