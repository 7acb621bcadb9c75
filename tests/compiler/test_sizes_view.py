"""`show sizes`: what the view says of a model that was served by size."""

from __future__ import annotations

import msgspec
import pytest
import torch
from torch import nn

from compdbg.compiler import CompilationConfig, support_torch_compile, use_config, warm_up

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")]


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x).sin()
        return x


class Reads(Layers):
    def forward(self, x):
        return super().forward(x) * torch.ops.sizes_view.largest(x)


@torch.library.custom_op("sizes_view::largest", mutates_args=())
def largest(x: torch.Tensor) -> torch.Tensor:
    return torch.full((), x.max().item())


@largest.register_fake
def _(x):
    return x.new_empty(())


def served(record_here, cls, sizes, calls, change=None, **settings):
    decorated = support_torch_compile(dynamic_arg_dims={"x": 0})(
        type("Model", (cls,), {"forward": cls.forward})
    )
    config = CompilationConfig(
        backend="eager",
        cudagraph_mode="PIECEWISE",
        cudagraph_capture_sizes=sizes,
        splitting_ops=["aten::sin"],
        **settings,
    )
    with record_here() as run, use_config(config), torch.inference_mode():
        model = decorated()
        warm_up(model, lambda n: (torch.randn(n, 8),))
        for n in calls:
            if change is not None and n == change:
                model.layers[1].weight = nn.Parameter(model.layers[1].weight * 2)
            x = torch.randn(n, 8)
            torch.testing.assert_close(model(x), model.forward_eager(x))
    rows = {row.size: row for row in run.load().sizes}
    return {n: msgspec.structs.asdict(row) for n, row in rows.items()}


def test_sizes_padded_captured_and_too_large(record_here):
    rows = served(record_here, Layers, [1, 2, 4, 8], (1, 3, 8, 9, 3), compile_sizes=[8])
    keys = ("compiled_as", "padded_to", "captured", "captures", "replays", "eager_calls")
    assert {n: tuple(row[key] for key in keys) for n, row in rows.items()} == {
        1: ("1-", 1, True, 4, 1, 0),
        2: ("1-", 2, True, 4, 0, 0),
        3: ("1-", 4, True, 0, 2, 0),
        4: ("1-", 4, True, 4, 0, 0),
        8: ("8", 8, True, 4, 1, 0),
        9: ("1-", None, False, 0, 0, 1),
    }
    assert all(
        row["capture_ms"] > 0 and row["capture_bytes"] > 0 for n, row in rows.items() if n in (1, 2, 4, 8)
    )
    assert all(row["fault"] is None and row["refused"] == 0 for row in rows.values())


def test_a_weight_that_was_replaced(record_here):
    rows = served(record_here, Layers, [2, 4], (2, 4, 3, 4), change=3)
    keys = ("refused", "replays", "eager_calls")
    assert {n: tuple(row[key] for key in keys) for n, row in rows.items()} == {
        2: (0, 1, 0),
        3: (1, 0, 1),
        4: (1, 1, 1),
    }


def test_an_operator_that_cannot_be_captured(record_here):
    rows = served(record_here, Reads, [2], (2, 2))
    assert (rows[2]["fault"], rows[2]["eager_calls"], rows[2]["warm_ups"]) == ("sync", 2, 0)
