"""Pieces of any backend that splits with `split_module`: what crosses, which are twins but for a constant."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from compdbg.findings.collect import find_all
from compdbg.model.run import Run

pytestmark = pytest.mark.torch


@torch.library.custom_op("splits::attention", mutates_args=())
def attention(x: torch.Tensor, layer: str) -> torch.Tensor:
    return x.sin()


@attention.register_fake
def _(x, layer):
    return torch.empty_like(x)


@torch.library.custom_op("splits::pair", mutates_args=())
def pair(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x + 1, x * 2


@pair.register_fake
def _(x):
    return torch.empty_like(x), torch.empty_like(x)


def splitting(gm, example_inputs):
    """A backend that runs `splits::...` by themselves."""
    from torch.fx.passes.split_module import split_module

    place, homes = 0, {}
    for node in gm.graph.nodes:
        if node.op.startswith("call"):
            own = "splits." in str(node.target)
            place += own
            homes[node] = place
            place += own
    return split_module(gm, None, homes.__getitem__, keep_original_order=True)


def run_of(record_here, forward, *sizes: int) -> Run:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linears = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))

    Model.forward = forward
    with record_here() as run, torch.no_grad():
        compiled = torch.compile(Model(), backend=splitting, fullgraph=True, dynamic=len(sizes) > 1)
        for n in sizes or (4,):
            compiled(torch.randn(n, 8))
    return run.load()


def found(run: Run) -> list[tuple[str, str]]:
    return [(f.code, f.severity) for f in find_all(run) if f.code.startswith(("split", "pieces"))]


def test_pieces_their_kinds_and_what_crosses(record_here):
    def forward(self, x):
        for i, linear in enumerate(self.linears):
            x = x + torch.ops.splits.attention(linear(x), f"layers.{i}")
        return x

    run = run_of(record_here, forward)
    assert [(p.piece, p.kind, p.ops, p.split_op, p.shared_with) for p in run.pieces] == [
        ("submod_0", "compiled", 1, None, None),
        ("submod_1", "splitting", 1, "splits::attention", None),
        ("submod_2", "compiled", 2, None, None),
        ("submod_3", "splitting", 1, "splits::attention", None),
        ("submod_4", "compiled", 2, None, "submod_2"),
        ("submod_5", "splitting", 1, "splits::attention", None),
        ("submod_6", "compiled", 1, None, None),
    ]
    assert [(c.type, c.shape, c.dtype) for c in run.pieces[1].inputs] == [("Tensor", ["4", "8"], "float32")]
    assert found(run) == []


def test_a_constant_keeps_twins_apart(record_here):
    def forward(self, x):
        for i, linear in enumerate(self.linears):
            x = torch.ops.splits.attention(linear(x) * (i + 0.5), "same")
        return x

    run = run_of(record_here, forward)
    (finding,) = [f for f in find_all(run) if f.code == "pieces-not-shared"]
    assert finding.data["values"] == ["0.5", "1.5", "2.5"]
    assert (finding.data["constant"], finding.data["compiled"]) == ("argument 1 of mul", 3)
    first = forward.__code__.co_firstlineno
    assert (finding.where.line, finding.where.function) == (first + 2, "forward")


def test_constants_that_give_other_shapes_are_no_accident(record_here):
    def forward(self, x):
        a = torch.ops.splits.attention(x.reshape(-1, 4), "a")
        b = torch.ops.splits.attention(x.reshape(-1, 2), "b")
        return a.sum() + b.sum()

    assert [code for code, _ in found(run_of(record_here, forward))] == ["split-empty-piece"]


def test_a_size_that_crosses(record_here):
    def forward(self, x):
        shape = (x * 2).shape
        return torch.ops.splits.attention(x * 2, "a").flatten().view(shape) + 1

    run = run_of(record_here, forward, 4, 5)
    (finding,) = [f for f in find_all(run) if f.severity != "info"]
    assert (finding.code, finding.severity, finding.data["kind"]) == ("split-boundary", "error", "size")
    assert (finding.data["from"], finding.data["to"]) == ("submod_0", ["submod_2"])
    assert finding.where.line == forward.__code__.co_firstlineno + 1


def test_a_tuple_that_crosses(record_here):
    def forward(self, x):
        a, b = torch.ops.splits.pair(x.cos())
        return a + b

    run = run_of(record_here, forward)
    (finding,) = [f for f in find_all(run) if f.severity != "info"]
    assert (finding.code, finding.data["kind"]) == ("split-boundary", "tuple")


def test_sizes_of_the_batch_may_cross(record_here):
    def forward(self, x):
        n = x.shape[0]
        return torch.ops.splits.attention(x.cos(), "a") + torch.arange(n)[:, None]

    assert found(run_of(record_here, forward, 4, 5)) == []


@torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True)
def test_a_value_that_comes_out_of_data(record_here):
    def forward(self, x):
        positive = (x > 0).nonzero()
        return torch.ops.splits.attention(x.cos(), "a").sum() + positive.sum()

    run = run_of(record_here, forward)
    (finding,) = [f for f in find_all(run) if f.code == "split-boundary"]
    assert (finding.data["kind"], finding.data["symbols"]) == ("unbacked", ["u0"])
    assert finding.where.line == forward.__code__.co_firstlineno + 1


@torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True)
def test_a_data_dependent_size_that_stays_in_its_piece(record_here):
    def forward(self, x):
        total = (x > 0).nonzero().sum()
        return torch.ops.splits.attention(x.cos(), "a").sum() + total

    assert found(run_of(record_here, forward)) == []


def test_a_split_outside_a_compile_is_nobodys_business(record_here):
    class Halves(nn.Module):
        def forward(self, x):
            return (x * 2).cos() * 3

    with record_here() as run:
        module = torch.fx.symbolic_trace(Halves())
        assert splitting(module, None)(torch.ones(2)).shape == (2,)
    assert run.load().pieces == []
