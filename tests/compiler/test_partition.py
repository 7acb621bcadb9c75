"""Inductor's own partition in place of the split: one piece for us, parts by the scheduler."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from compdbg.compiler import CompilationConfig, support_torch_compile, use_config
from compdbg.compiler.partitions import CapturedPart, Statics, partition_options
from compdbg.events import Capture, Piece
from tests.compiler.ops import Block
from tests.compiler.sized import Heard

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")]
INTO = "core::attention_into"


@support_torch_compile(dynamic_arg_dims={"x": 0})
class Layered(nn.Module):
    def __init__(self, device: str) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Block(i, 64) for i in range(3))
        self.to(device)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def partitioned(device: str, mode: str) -> Heard:
    config = CompilationConfig(
        splitting_ops=[INTO],
        use_inductor_graph_partition=True,
        cudagraph_mode=mode,
        cudagraph_capture_sizes=[4, 8],
    )
    with use_config(config):
        model = Layered(device)
    with Heard() as heard, torch.no_grad():
        for n in (3, 3, 3, 8, 8, 8, 9, 3, 4):
            x = torch.randn(n, 64, device=device)
            torch.testing.assert_close(model(x), model.forward_eager(x), atol=1e-3, rtol=1e-3)
    return heard


def test_inductor_is_told_where_to_cut():
    assert partition_options(CompilationConfig(splitting_ops=[INTO])) == {}
    config = CompilationConfig(splitting_ops=[INTO], use_inductor_graph_partition=True)
    assert partition_options(config) == {"graph_partition": True, "custom_should_partition_ops": [INTO]}


@pytest.mark.slow
def test_the_graph_is_one_piece(target):
    heard = partitioned(target, "NONE")
    assert [piece.piece_kind for piece in heard.of(Piece)] == ["compiled"]


@pytest.mark.gpu
def test_the_parts_are_captured_cold_and_from_the_cache():
    for _ in range(2):
        captures = partitioned("cuda", "PIECEWISE").of(Capture)
        assert {capture.size for capture in captures} == {4, 8}
        assert len({capture.piece for capture in captures}) == 4


def test_a_part_knows_parameters_from_values_by_their_addresses():
    statics = Statics()
    weight, x = torch.randn(4, 4), torch.randn(2, 4)
    statics.note([3, weight, x], static=[1])
    seen = []

    def part(args):
        seen.append([type(a).__name__ for a in args])
        return (args[1] @ args[0],)

    called = CapturedPart(part, "part_0", "Model", CompilationConfig(), statics)
    given = [weight, x]
    (result,) = called(given)
    assert given == []
    assert torch.equal(result, x @ weight)
    assert seen == [["Tensor", "Tensor"]]
