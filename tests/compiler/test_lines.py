"""What passes put into a graph comes from a line of the program."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from compdbg.compiler import (
    CompilationConfig,
    FusionPass,
    FusionPattern,
    support_torch_compile,
    use_config,
)
from compdbg.compiler.splitting import line_of
from compdbg.findings.collect import find_all
from tests.compiler.passes_only import FLAGS, after_fusions

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")]


def without_a_line(graph) -> list[str]:
    return [node.format_node() for node in graph.nodes if node.op == "call_function" and not line_of(node)]


@pytest.mark.parametrize(
    ("changes", "flags"),
    [
        ({}, FLAGS),
        ({"quant": "static_fp8"}, FLAGS),
        ({"quant": "per_token_int8"}, ("fuse_act_quant",)),
        ({"qk_norm": True}, ("enable_qk_norm_rope_fusion",)),
    ],
    ids=["plain", "quantised", "quantised and left", "norms of heads"],
)
def test_every_node_has_a_line_after_all_fusions(changes, flags):
    assert after_fusions(changes, flags, without_a_line) == [[]]


def refused(match):
    return False


class Gate(FusionPass):
    def patterns(self):
        yield FusionPattern(
            pattern=lambda g, u: F.silu(g) * u,
            replacement=lambda g, u: g + u,
            inputs=lambda: [torch.empty(4, 8), torch.empty(4, 8)],
            extra_check=refused,
        )


@support_torch_compile(dynamic_arg_dims={"x": 0, "y": 0})
class Gated(nn.Module):
    def forward(self, x, y):
        gated = F.silu(x) * y
        return gated.sin()


def test_a_miss_at_what_was_folded_is_at_its_line(record_here):
    compilation = CompilationConfig(
        backend="passes-only",
        pass_config={"fuse_act_quant": True},
        inductor_passes=[Gate()],
        disable_cache=True,
    )
    with record_here() as run, use_config(compilation), torch.inference_mode():
        Gated()(torch.randn(4, 8), torch.randn(4, 8))
    (finding,) = [f for f in find_all(run.load()) if f.code == "fusion-missed"]
    assert (finding.data["pass"], finding.data["reason"]) == ("Gate", "extra-check")
    line = Gated.forward_eager.__code__.co_firstlineno + 1
    assert (finding.where.function, finding.where.line) == ("forward", line)
