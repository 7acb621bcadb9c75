"""Where a graph is split, what crosses the borders, and that the pieces compute what the whole does."""

from __future__ import annotations

import logging

import pytest
import torch
from torch import nn

from compdbg.compiler import support_torch_compile, use_config
from compdbg.events import Piece, SplitOpUnmatched
from tests.compiler.ops import compare, eager
from tests.compiler.sized import Heard

pytestmark = pytest.mark.torch

INTO, FUNCTIONAL, PAIR = "core::attention_into", "core::attention", "core::pair"


def split(forward, *ops: str, sizes=(3, 5, 1), width: int = 8, **config) -> list[Piece]:
    """Compile a module with this forward, check it at several sizes, and give its pieces."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(width, width)

    Model.forward = forward
    decorated = support_torch_compile(dynamic_arg_dims={"x": 0})(Model)
    with use_config(eager(*ops, **config)):
        model = decorated()
    with Heard() as heard:
        compare(model, *sizes, width=width)
    return heard.of(Piece)


def kinds(pieces: list[Piece]) -> list[str]:
    return [f"{piece.piece_kind} {piece.ops}" for piece in pieces]


def test_a_splitting_operator_stands_alone_between_compiled_pieces():
    def forward(self, x):
        for _ in range(2):
            x = x + torch.ops.core.attention(self.linear(x))
        return x

    pieces = split(forward, FUNCTIONAL)
    assert kinds(pieces) == ["compiled 1", "splitting 1", "compiled 2", "splitting 1", "compiled 1"]
    assert [piece.split_op for piece in pieces] == [None, FUNCTIONAL, None, FUNCTIONAL, None]


def test_without_splitting_operators_there_is_one_piece():
    def forward(self, x):
        return torch.ops.core.attention(self.linear(x))

    assert kinds(split(forward)) == ["compiled 2"]


def test_consecutive_splitting_operators_stand_together():
    def forward(self, x):
        q = self.linear(x)
        out = torch.empty_like(q)
        torch.ops.core.attention_into(q, out, "a")
        torch.ops.core.attention_into(out, q, "b")
        return q + out

    pieces = split(forward, INTO)
    assert kinds(pieces) == ["compiled 2", "splitting 2", "compiled 1"]
    assert pieces[1].split_op == INTO


def test_an_allocation_between_splitting_operators_moves_into_the_compiled_piece_before():
    def forward(self, x):
        q = self.linear(x)
        first = torch.empty_like(q)
        torch.ops.core.attention_into(q, first, "a")
        second = torch.empty_like(q)
        torch.ops.core.attention_into(q, second, "b")
        return first + second

    assert kinds(split(forward, INTO)) == ["compiled 3", "splitting 1", "splitting 1", "compiled 1"]


def test_an_allocation_before_all_compute_is_inlined_not_compiled():
    def forward(self, x):
        out = torch.empty_like(x)
        torch.ops.core.attention_into(x, out, "a")
        return out * 2

    assert kinds(split(forward, INTO)) == ["inlined 1", "splitting 1", "compiled 1"]


def test_a_view_between_splitting_operators_is_inlined_and_sees_what_they_wrote():
    def forward(self, x):
        q = self.linear(x)
        out = torch.empty_like(q)
        torch.ops.core.attention_into(q, out, "a")
        turned = out.view(-1, 2, 4)
        torch.ops.core.attention_into(turned, turned, "b")
        return out + q

    assert kinds(split(forward, INTO)) == [
        "compiled 2",
        "splitting 1",
        "inlined 1",
        "splitting 1",
        "compiled 1",
    ]


def test_outputs_of_a_splitting_operator_are_taken_apart_in_its_piece():
    def forward(self, x):
        a, b = torch.ops.core.pair(self.linear(x), 3)
        return a * b

    pieces = split(forward, PAIR)
    assert kinds(pieces) == ["compiled 1", "splitting 3", "compiled 1"]
    assert [boundary.type for boundary in pieces[1].outputs] == ["Tensor", "Tensor"]


def test_sizes_are_worked_out_where_they_are_used_and_never_cross():
    def forward(self, x):
        h = self.linear(x)
        shape = h.shape
        rows = h.size(0) * 2
        out = torch.empty_like(h)
        torch.ops.core.attention_into(h, out, "a")
        a, b = torch.ops.core.pair(out.view(shape), rows)
        return (a + b).reshape(rows, 4), out.new_zeros(h.size()), torch.arange(rows)[: shape[0]]

    pieces = split(forward, INTO, PAIR)
    crossing = [b.type for piece in pieces for b in (*piece.inputs, *piece.outputs)]
    assert set(crossing) == {"Tensor", "SymInt"}
    outputs = [b.type for piece in pieces for b in piece.outputs]
    assert set(outputs) == {"Tensor"}


def test_returned_sizes_are_those_of_the_call_also_when_rows_are_added():
    def forward(self, x):
        h = torch.ops.core.attention(self.linear(x))
        return h.shape[0], h * 2, h.shape[0] * 3 + 1

    pieces = split(
        forward, FUNCTIONAL, sizes=(3, 3, 3, 5), cudagraph_mode="PIECEWISE", cudagraph_capture_sizes=[4]
    )
    assert kinds(pieces) == ["compiled 1", "splitting 1", "compiled 1"]


def test_writes_keep_their_order_over_the_pieces():
    def forward(self, x):
        h = self.linear(x)
        out = torch.empty_like(h)
        torch.ops.core.attention_into(h, out, "a")
        kept = out * 1
        out.mul_(2)
        torch.ops.core.attention_into(kept, h, "b")
        out.add_(h)
        return out, kept, h

    pieces = split(forward, INTO)
    assert [piece.piece_kind for piece in pieces] == ["compiled", "splitting"] * 2 + ["compiled"]


def test_contexts_that_a_border_cuts_hold_on_both_sides():
    def forward(self, x):
        with torch.autocast("cpu", torch.bfloat16):
            h = self.linear(x)
            h = torch.ops.core.attention(h)
            h = self.linear(h)
        return h.float() + self.linear(x)

    pieces = split(forward, FUNCTIONAL)
    assert [o.dtype for piece in pieces for o in piece.outputs] == ["bfloat16", "bfloat16", "float32"]


def test_grad_mode_inside_the_graph_is_kept_and_gradients_flow_around_it():
    @support_torch_compile(dynamic_arg_dims={"x": 0})
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 8)

        def forward(self, x):
            with torch.no_grad():
                h = torch.ops.core.attention(self.linear(x))
                h = h + 1
            return self.linear(x) * h

    with use_config(eager(FUNCTIONAL)):
        model = Model()
    x = torch.randn(3, 8)
    model(x).sum().backward()
    found = model.linear.weight.grad.clone()
    model.zero_grad()
    model.forward_eager(x).sum().backward()
    torch.testing.assert_close(found, model.linear.weight.grad)
    assert torch.is_grad_enabled()


def test_a_name_that_matches_nothing_is_said_with_the_nearest(caplog, monkeypatch):
    monkeypatch.setenv("COMPDBG_DISABLE_COMPILE_CACHE", "1")

    def forward(self, x):
        return torch.ops.core.attention(self.linear(x))

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 8)

    Model.forward = forward
    Model = support_torch_compile(dynamic_arg_dims={"x": 0})(Model)
    names = ["core.attention", "core::atention", "core::pair", "nothing::like_it"]
    with use_config(eager(*names)):
        model = Model()
    with Heard() as heard, caplog.at_level(logging.WARNING, "compdbg.compiler"):
        compare(model, 3)
    assert [(e.name, e.nearest, e.exists) for e in heard.of(SplitOpUnmatched)] == [
        ("core.attention", FUNCTIONAL, False),
        ("core::atention", FUNCTIONAL, False),
        ("core::pair", None, True),
        ("nothing::like_it", None, False),
    ]
    hints = [m.partition(": ")[2] for m in caplog.messages if "did you mean" in m]
    said = "splitting_ops: no operator {!r} in the graph; did you mean {!r}?"
    assert hints == [said.format(name, FUNCTIONAL) for name in names[:2]]


def test_an_operator_of_torch_is_named_as_in_aten():
    def forward(self, x):
        return torch.nn.functional.silu(self.linear(x)) * 2

    pieces = split(forward, "aten::silu")
    assert [piece.split_op for piece in pieces] == [None, "aten::silu", None]
