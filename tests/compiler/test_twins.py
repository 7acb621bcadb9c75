"""Equal pieces are compiled once, also where a layer's index tells them apart; never with wrong results."""

from __future__ import annotations

import msgspec
import pytest
import torch
from torch import nn

from compdbg.compiler import support_torch_compile, use_config
from compdbg.compiler.piece_cache import forget
from compdbg.events import CacheLookup, Piece, PieceCompiled
from tests.compiler.ops import Block, compare, eager
from tests.compiler.sized import Heard

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")]

INTO = "core::attention_into"


@support_torch_compile(dynamic_arg_dims={"x": 0})
class Layered(nn.Module):
    def __init__(self, layers) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def compiled(layers, **config) -> Heard:
    with use_config(eager(INTO, **config)):
        model = Layered(layers)
    with Heard() as heard:
        compare(model, 3, 1, 8, 5)
    return heard


def unique(heard: Heard) -> int:
    return sum(not event.reused for event in heard.of(PieceCompiled))


@pytest.mark.parametrize("layers", [2, 6, 20])
def test_layers_that_differ_by_index_and_name_are_three_pieces(layers):
    heard = compiled([Block(i) for i in range(layers)])
    assert unique(heard) == 3
    pieces = heard.of(Piece)
    assert [p.piece_kind for p in pieces] == ["compiled", "splitting"] * layers + ["compiled"]
    assert {p.shared_with for p in pieces[4:-1:2]} == ({"piece_2"} if layers > 2 else set())


def test_each_range_and_size_is_compiled_once_for_all_twins():
    heard = compiled([Block(i) for i in range(4)], compile_sizes=[8], compile_ranges=[(2, 4)])
    made = [(event.piece, event.range) for event in heard.of(PieceCompiled) if not event.reused]
    assert made == [
        (piece, size) for piece in ("piece_0", "piece_2", "piece_8") for size in ("8", "1", "2-4", "5-")
    ]


def test_a_constant_that_can_not_become_an_input_keeps_pieces_apart_and_is_named():
    heard = compiled([Block(i, scale=0.5 if i == 2 else 1.0) for i in range(5)])
    assert unique(heard) == 4
    (apart,) = [p for p in heard.of(Piece) if p.differs_by]
    assert apart.piece == "piece_6"
    assert "0.5 where" in apart.differs_by and "has 1.0" in apart.differs_by


def test_an_index_into_a_stacked_tensor_is_shared_only_where_it_is_right():
    class Indexing(nn.Module):
        def __init__(self, index: int) -> None:
            super().__init__()
            self.index = index
            self.table = TABLE

        def forward(self, x):
            q = x * self.table[self.index]
            out = torch.empty_like(q)
            torch.ops.core.attention_into(q, out, str(self.index))
            return out + self.table[-1 - self.index]

    TABLE = torch.randn(6, 8)
    compiled([Indexing(i) for i in range(6)])


@pytest.mark.parametrize("values", [(0, 1, 2, 3), (5, 5, 5, 5), (-3, 0, 7, 1000000)])
def test_lifted_integers_are_right_at_zero_one_and_below(values):
    class Adding(nn.Module):
        def __init__(self, value: int) -> None:
            super().__init__()
            self.value = value

        def forward(self, x):
            out = torch.empty_like(x)
            torch.ops.core.attention_into((x + self.value) * self.value - self.value, out, "a")
            return x + out.add(self.value)

    heard = compiled([Adding(value) for value in values])
    assert unique(heard) == 3


@pytest.mark.slow
def test_lifted_integers_are_right_through_inductor():
    config = msgspec.structs.replace(eager(INTO, compile_sizes=[8]), backend="inductor")
    with use_config(config):
        model = Layered([Block(i) for i in range(5)])
    with Heard() as heard:
        compare(model, 3, 1, 8, 5)
    assert unique(heard) == 6


def test_pieces_that_share_memory_differently_are_no_twins():
    class Halves(nn.Module):
        def __init__(self, apart: bool) -> None:
            super().__init__()
            self.apart = apart

        def forward(self, x):
            both = torch.cat([x, x * 2])
            a, b = both.chunk(2)
            if self.apart:
                b = b.clone()
            out = torch.empty_like(a)
            torch.ops.core.attention_into(a, out, "a")
            a.add_(1)
            return a + b + out

    compiled([Halves(False), Halves(True), Halves(False)])


def test_a_second_model_of_the_same_kind_compiles_nothing_anew(monkeypatch):
    monkeypatch.setenv("COMPDBG_DISABLE_COMPILE_CACHE", "1")
    with use_config(eager(INTO)):
        first = Layered([Block(i) for i in range(3)])
        second = Layered([Block(i) for i in range(5)])
    with Heard() as heard:
        compare(first, 3)
        made = unique(heard)
        compare(second, 3)
    assert (made, unique(heard)) == (3, 3)


@pytest.mark.parametrize(("factors", "compiles"), [((2.0, 2.0, 2.0), 3), ((2.0, 3.0, 2.0), 4)])
def test_graphs_inside_a_piece_are_part_of_what_makes_it_a_twin(factors, compiles):
    class Chosen(nn.Module):
        def __init__(self, factor, index):
            super().__init__()
            self.block = Block(index)
            self.factor = factor

        def forward(self, x):
            def scaled(y):
                return y * self.factor

            return self.block(torch.cond(x.sum() > 0, scaled, torch.cos, (x,)))

    heard = compiled([Chosen(factor, i) for i, factor in enumerate(factors)])
    assert unique(heard) == compiles
    forget()
    torch._dynamo.reset()
    again = compiled([Chosen(factor, i) for i, factor in enumerate(factors)])
    assert unique(again) == 0
    looked_up = [(event.result, event.reason) for event in again.of(CacheLookup) if event.layer == "aot"]
    assert looked_up[0][0] == "hit", looked_up
