"""`show sizes`: what the view says of a model that was served by size."""

from __future__ import annotations

import msgspec
import pytest
import torch
from torch import nn

from compdbg.compiler import (
    CompilationConfig,
    set_forward_context,
    support_torch_compile,
    use_config,
    warm_up,
)
from compdbg.report.text import render
from compdbg.views.base import Source
from compdbg.views.explorer.sizes import size_page
from compdbg.views.sizes import sizes as text_view

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


def recorded(record_here, cls, sizes, calls, change=None, **settings):
    decorated = support_torch_compile(dynamic_arg_dims={"x": 0})(
        type("Model", (cls,), {"forward": cls.forward})
    )
    usual = {"backend": "eager", "cudagraph_mode": "PIECEWISE", "splitting_ops": ["aten::sin"]}
    config = CompilationConfig(cudagraph_capture_sizes=sizes, **{**usual, **settings})
    decode = config.cudagraph_mode.decode_mode() is not config.cudagraph_mode.mixed_mode()
    with record_here() as run, use_config(config), torch.inference_mode():
        model = decorated()
        warm_up(model, lambda n: (torch.randn(n, 8),))
        for n in calls:
            if change is not None and n == change:
                model.layers[1].weight = nn.Parameter(model.layers[1].weight * 2)
            x = torch.randn(n, 8)
            with set_forward_context(None, uniform_decode=decode and n < 3):
                torch.testing.assert_close(model(x), model.forward_eager(x))
    return run.load()


def served(*args, **settings):
    rows = {row.size: row for row in recorded(*args, **settings).sizes}
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


TUNED = {"max_autotune": "true", "coordinate_descent_tuning": "true"}
CALLS = (1, 1, 2, 3, 4, 9)
"""Those of fewer than three rows are uniform decode, where these are captured apart."""
FULL, PIECEWISE = {"FULL": 1}, {"PIECEWISE": 4}


@pytest.mark.parametrize(
    ("mode", "captures", "replays"),
    [
        ("FULL", [FULL] * 3, [{"FULL": 2}, {"FULL": 1}, {"FULL": 1}]),
        ("PIECEWISE", [PIECEWISE] * 3, [{"PIECEWISE": 2}, {"PIECEWISE": 1}, {"PIECEWISE": 1}]),
        ("FULL_AND_PIECEWISE", [FULL | PIECEWISE] * 3, [{"FULL": 2}, {"FULL": 1}, {"PIECEWISE": 1}]),
        ("FULL_DECODE_ONLY", [FULL] * 3, [{"FULL": 2}, {"FULL": 1}, {}]),
    ],
)
def test_captures_and_replays_of_the_whole_graph_and_of_pieces_are_told_apart(
    mode, captures, replays, record_here
):
    rows = served(record_here, Layers, [1, 2, 4], CALLS, cudagraph_mode=mode)
    assert [rows[n]["captures_by_mode"] for n in (1, 2, 4)] == captures
    assert [rows[n]["replays_by_mode"] for n in (1, 2, 4)] == replays
    assert all(sum(row["captures_by_mode"].values()) == row["captures"] for row in rows.values())
    assert all(sum(row["replays_by_mode"].values()) == row["replays"] for row in rows.values())


def test_both_are_said_in_words(record_here):
    run = recorded(record_here, Layers, [1, 2, 4], (*CALLS, 1, 3), cudagraph_mode="FULL_AND_PIECEWISE")
    said = render(text_view(Source(run, [])), 140)
    assert (
        "captures of a size: one of the whole graph (FULL), one for each compiled piece (PIECEWISE)" in said
    )
    assert said.count("1 full, 4 pieces") == 3
    assert "1 call of more rows than the largest capture" in said
    (row,) = (row for row in run.sizes if row.size == 1)
    page = repr(size_page(Source(run, []), row))
    assert "5 captures (1 full, 4 pieces)" in page


def test_a_mode_that_leaves_batches_out_is_said_in_words(record_here):
    run = recorded(record_here, Layers, [1, 2, 4], CALLS, cudagraph_mode="FULL_DECODE_ONLY")
    said = render(text_view(Source(run, [])), 200)
    assert "captures of a size: one of the whole graph (FULL)\n" in said
    assert "1 call of mixed batches (FULL_DECODE_ONLY captures decode ones)" in said
    assert "mode 1" not in said


@pytest.mark.filterwarnings("ignore:TypedStorage")  # torch 2.11, where it times products
@pytest.mark.parametrize(("tune", "options"), [(True, {"8": TUNED, "1-": {}}), (False, {"8": {}, "1-": {}})])
def test_what_inductor_was_told_is_recorded_where_it_compiles_and_where_a_cache_serves(
    tune, options, record_here
):
    for result in ("compiled", "loaded"):
        run = recorded(
            record_here, Layers, [8], (8, 3), backend="inductor", compile_sizes=[8], tune_single_sizes=tune
        )
        compiled = [piece for piece in run.pieces if piece.kind == "compiled"]
        assert [piece.loaded for piece in compiled] == [result == "loaded"] * len(compiled)
        assert all(piece.options == options for piece in compiled)
        assert {row.size: row.tuned for row in run.sizes} == {3: tune, 8: tune}


def test_a_model_for_which_nothing_is_captured_has_no_trouble(record_here):
    run = recorded(record_here, Layers, [1], (1, 3, 3), cudagraph_mode="NONE")
    said = render(text_view(Source(run, [])), 200)
    assert ": no captures, cudagraph_mode is NONE\n" in said
    assert "FULL_DECODE_ONLY" not in said
    assert [(row.eager_calls, row.replays) for row in run.sizes] == [(1, 0), (2, 0)]
