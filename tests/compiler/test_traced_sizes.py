"""A piece is compiled for the sizes that its trace is good for, and decides as the trace did."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from compdbg import probe
from compdbg.compiler import CompilationConfig, support_torch_compile, use_config
from compdbg.compiler.compiler_interface import EagerAdaptor, register_compiler
from compdbg.compiler.dropped_guards import ShapeGuardError
from compdbg.events import Guards, GuardViolation, PieceCompiled
from tests.compiler.ops import compare, eager
from tests.compiler.sized import Heard

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")]


class Deciding(EagerAdaptor):
    """Decides by the size at compile time, as a decomposition does. `decided` is what it found."""

    name = "deciding"
    keeps = False
    decided: list[bool] = []

    def compile(self, graph, example_inputs, options):
        x = next(given for given in example_inputs if isinstance(given, torch.Tensor))
        self.decided.append(bool(self.decision(*x.shape)))
        return super().compile(graph, example_inputs, options)


@pytest.fixture
def decide(monkeypatch):
    """Calls a model and says what a compiler decides in each of its pieces."""
    register_compiler("deciding", lambda config: Deciding())

    def first_call(forward, *shapes, by, dims=0, **config):
        monkeypatch.setattr(Deciding, "decision", staticmethod(by), raising=False)
        monkeypatch.setattr(Deciding, "decided", [])

        class Model(nn.Module):
            pass

        Model.forward = forward
        names = forward.__code__.co_varnames[1 : forward.__code__.co_argcount]
        compiled = support_torch_compile(dynamic_arg_dims=dict.fromkeys(names, dims))(Model)
        with use_config(CompilationConfig(backend="deciding", disable_cache=True, **config)):
            model = compiled()
        given = [torch.randn(shape) for shape in shapes]
        torch.testing.assert_close(model(*given), model.forward_eager(*given))
        return Deciding.decided

    return first_call


@pytest.mark.parametrize("n", [3, 40])
def test_a_branch_that_the_trace_took_is_taken_again(n, decide):
    def forward(self, x):
        return x * 2 if x.shape[0] > 8 else x + 1

    assert decide(forward, (n, 4), by=lambda n, _: n > 8) == [n > 8]


@pytest.mark.parametrize("n", [6, 7, 9])
def test_also_where_bounds_do_not_tell(n, decide):
    def forward(self, x):
        return x * 2 if x.shape[0] % 3 == 0 else x + 1

    assert decide(forward, (n, 4), by=lambda n, _: n % 3 == 0) == [n % 3 == 0]


@pytest.mark.parametrize("length", [5, 600])
def test_also_for_sizes_that_are_no_batch_size(length, decide):
    def forward(self, x):
        return x * 2 if x.shape[1] > 8 else x + 1

    assert decide(forward, (3, length), by=lambda _, length: length > 8, dims=(0, 1)) == [length > 8]


def test_also_for_sizes_taken_together(decide):
    def forward(self, x):
        return x * 2 if x.shape[0] * x.shape[1] > 2000 else x + 1

    def by(n, length):
        return n * length > 2000

    assert decide(forward, (3, 700), by=by, dims=(0, 1)) == [True]
    assert decide(forward, (3, 70), by=by, dims=(0, 1)) == [False]


def test_a_range_that_the_model_can_not_serve_is_not_compiled():
    @support_torch_compile(dynamic_arg_dims={"x": 0})
    class Positions(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("table", torch.randn(64, 8))

        def forward(self, x):
            return x + self.table[: x.shape[0]]

    with use_config(eager(compile_ranges=[(1, 16), (17, 64)])):
        model = Positions()
    with Heard() as heard:
        compare(model, 20, 5, 1, 64)
    assert [event.range for event in heard.of(PieceCompiled)] == ["1-16", "17-64"]


class OnlyFours(EagerAdaptor):
    """Compiles what is right for one kind of size only, as a lowering with a guard does."""

    def compile(self, graph, example_inputs, options):
        x = next(given for given in example_inputs if isinstance(given, torch.Tensor))
        fours = bool(x.shape[0] % 4 == 0)
        piece = super().compile(graph, example_inputs, options)
        return lambda *inputs: [
            out if fours == (out.shape[0] % 4 == 0) else out * 0 for out in piece(*inputs)
        ]

    def save(self, runnable):
        return None


class OnlyTheFirst(EagerAdaptor):
    """Takes the size for a number, which is then no symbol to the compiler any more."""

    def compile(self, graph, example_inputs, options):
        x = next(given for given in example_inputs if isinstance(given, torch.Tensor))
        assert int(x.shape[0]) > 1
        return super().compile(graph, example_inputs, options)


def only_fours(first, compiler=OnlyFours, **config):
    register_compiler("only fours", lambda config: compiler())

    @support_torch_compile(dynamic_arg_dims={"x": 0})
    class Model(nn.Module):
        def forward(self, x):
            return x + 1

    with use_config(CompilationConfig(backend="only fours", **config)):
        model = Model()
    heard = Heard()
    heard.__enter__()
    compare(model, first)
    return model, heard


@pytest.mark.parametrize("first", [8, 7])
def test_what_a_compiler_assumes_of_the_size_is_so_for_the_first_call(first):
    only_fours(first)


def test_and_is_a_dropped_guard_on_later_calls():
    model, heard = only_fours(8)
    compare(model, 12)
    assert heard.of(GuardViolation) == []
    model(torch.randn(5, 8))
    (guards,) = (event for event in heard.of(Guards) if event.compile_id == "pieces")
    (guard,) = guards.guards
    assert (guard.type, guard.expr, guard.kept) == ("SHAPE_ENV", "Eq(Mod(L['x'].size()[0], 4), 0)", False)
    (violation,) = heard.of(GuardViolation)
    assert (violation.name, violation.seen, violation.effect) == ("x.shape[0]", "x.shape[0] = 5", "unknown")
    probe.set_sink(None)


def test_a_size_that_a_compiler_takes_for_a_number_is_one_too():
    model, heard = only_fours(8, OnlyTheFirst)
    compare(model, 8)
    assert heard.of(GuardViolation) == []
    compare(model, 9)
    (violation,) = heard.of(GuardViolation)
    assert (violation.expr, violation.seen) == ("Eq(L['x'].size()[0], 8)", "x.shape[0] = 9")
    probe.set_sink(None)


def test_it_is_asked_of_the_sizes_of_its_range_alone():
    model, heard = only_fours(8, compile_ranges=[(5, 9)], compile_sizes=[7])
    texts = {guard.expr for event in heard.of(Guards) for guard in event.guards}
    x = "L['x'].size()[0]"
    assert texts == {
        f"Or({x} > 4, Eq(Mod({x}, 4), 0))",
        f"Or({x} < 5, {x} > 9, Eq({x}, 7), Eq(Mod({x}, 4), 0))",
        f"Or({x} < 10, Eq(Mod({x}, 4), 0))",
    }
    model(torch.randn(7, 8))
    model(torch.randn(9, 8))
    assert [violation.seen for violation in heard.of(GuardViolation)] == ["x.shape[0] = 9"]
    probe.set_sink(None)


def test_it_is_not_asked_of_calls_that_are_padded_to_a_size_where_it_holds():
    model, heard = only_fours(8, cudagraph_mode="PIECEWISE", cudagraph_capture_sizes=[4, 8, 16])
    compare(model, 5, 3, 4)
    model(torch.randn(17, 8))
    assert [violation.seen for violation in heard.of(GuardViolation)] == ["x.shape[0] = 17"]
    probe.set_sink(None)


def test_evaluated_guards_raise_for_it_too():
    model, _ = only_fours(8, dynamic_shapes_config={"evaluate_guards": True})
    with pytest.raises(ShapeGuardError, match=r"Mod\(x.shape\[0\], 4\).*x.shape\[0\] = 5"):
        model(torch.randn(5, 8))
    probe.set_sink(None)
