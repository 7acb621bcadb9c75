"""Projections out of one product are read where they lie; where strides are promised, they are copied."""

from __future__ import annotations

import pytest
import torch

import fixtures.models.attention  # noqa: F401
from compdbg.compiler.ops.rope import rotate
from compdbg.compiler.passes.at_stage import show_to_pass
from compdbg.compiler.passes.fusion.qkv_projection_fusion import QKVProjectionFusionPass

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")]
aten = torch.ops.aten
x, weights = torch.randn(5, 32), [torch.randn(32, 32), torch.randn(16, 32), torch.randn(16, 32)]
angles = torch.randn(2, 5, 1, 8)


def copies(forward):
    """How many of the three projections are copied out of the product; and what its views are."""
    graphs = []

    def fused(graph):
        QKVProjectionFusionPass()(graph)
        graph.lint()
        graphs.append(graph)

    with torch.no_grad():
        show_to_pass(forward, [x, *weights, *angles], fused)
    (graph,) = graphs
    assert graph.find_nodes(op="call_function", target=torch.ops.compdbg.merged_projection.default)
    return len(graph.find_nodes(op="call_function", target=aten.clone.default)), graph


def heads(x, *weights):
    return [(x @ weight.t()).unflatten(-1, (-1, 8)) for weight in weights]


def test_what_torch_reads_is_not_copied():
    def forward(x, q, k, v, cos, sin):
        q, k, v = heads(x, q, k, v)
        return rotate(q, cos, sin), rotate(k, cos, sin), v * 2

    count, graph = copies(forward)
    assert count == 0
    views = [node.meta["val"] for node in graph.find_nodes(op="call_function", target=aten.reshape.default)]
    assert [(view.stride()[0], view.stride()[1:]) for view in views if view.shape[1:] == (4, 8)] == [
        (64, (8, 1))
    ]


def test_what_the_caller_gets_is_copied():
    def forward(x, q, k, v, cos, sin):
        q, k, v = heads(x, q, k, v)
        return rotate(q, cos, sin), k.transpose(0, 1), v

    assert copies(forward)[0] == 2


def test_what_another_operator_reads_is_copied():
    def forward(x, q, k, v, cos, sin):
        q, k, v = heads(x, q, k, v)
        out, cache = torch.empty_like(q), torch.zeros(2, 4, 16, 2, 8)
        torch.ops.fixtures.paged_attention(q, k, v, out, cache, 0.5)
        return out, cos + sin

    assert copies(forward)[0] == 3


def test_a_tensor_that_is_reinterpreted_is_copied():
    def forward(x, q, k, v, cos, sin):
        q, k, v = heads(x, q, k, v)
        return torch.as_strided(q, (4,), (1,)) + 1, k + 1, v + cos.sum() + sin.sum()

    assert copies(forward)[0] == 1
