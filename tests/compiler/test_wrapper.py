"""One compile without guards: what it assumes, what it checks when asked to, and what it refuses."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from compdbg.compiler import CompilationConfig, CUDAGraphMode, support_torch_compile, use_config
from compdbg.compiler.buffer_writes import BufferAssignedError
from compdbg.compiler.dropped_guards import ShapeGuardError
from compdbg.events import Capture, ConfigValue, Decorated, PieceCompiled
from tests.compiler.ops import compare, eager
from tests.compiler.sized import Heard

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")]
SHAPES = ("backed", "backed_size_oblivious", "unbacked")


@support_torch_compile(dynamic_arg_dims={"x": 0})
class Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.factor = 2.0

    def forward(self, x):
        return self.linear(x) * self.factor


@support_torch_compile(dynamic_arg_dims={"x": 0})
class Branching(nn.Module):
    def forward(self, x):
        return x * 2 if x.shape[0] > 4 else x + 100


@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("first", [1, 2, 7])
def test_sizes_are_general_whatever_the_first_call_was(shapes, first):
    with use_config(eager("core::attention", dynamic_shapes_config={"type": shapes})):
        model = Plain()
    with Heard() as heard:
        compare(model, first, 1, 2, 3, 64, 0)
    assert len(heard.of(PieceCompiled)) == 1


def test_guards_are_dropped_so_a_later_call_takes_the_branch_of_the_first():
    with use_config(eager()):
        model = Branching()
    assert model(torch.ones(6, 2))[0, 0] == 2
    assert model(torch.ones(3, 2))[0, 0] == 2


def test_evaluated_guards_raise_with_the_expression_and_the_line():
    with use_config(eager(dynamic_shapes_config={"evaluate_guards": True})):
        model = Branching()
    assert model(torch.ones(6, 2))[0, 0] == 2
    assert model(torch.ones(64, 2))[0, 0] == 2
    with pytest.raises(ShapeGuardError, match=r"x.*size.*x\.shape\[0\] > 4"):
        model(torch.ones(3, 2))


def test_evaluated_guards_do_not_stop_sizes_zero_and_one():
    with use_config(eager(dynamic_shapes_config={"evaluate_guards": True})):
        model = Plain()
    compare(model, 5, 1, 0)


@pytest.mark.parametrize("shapes", SHAPES)
def test_an_unbacked_size_can_not_be_branched_on(shapes):
    with use_config(eager(dynamic_shapes_config={"type": shapes})):
        model = Branching()
    if shapes == "unbacked":
        with pytest.raises(Exception, match=r"data-dependent|u0"):
            model(torch.ones(6, 2))
    else:
        assert model(torch.ones(6, 2))[0, 0] == 2


def test_arguments_of_one_size_are_one_batch_size():
    @support_torch_compile(dynamic_arg_dims={"x": 0, "positions": 0})
    class Model(nn.Module):
        def forward(self, x, positions):
            return x * 2, torch.ops.core.attention(positions.float())

    with use_config(eager("core::attention", cudagraph_mode="PIECEWISE", cudagraph_capture_sizes=[4])):
        model = Model()
    for n in (3, 3, 3, 9):
        x, positions = torch.randn(n, 2), torch.arange(n)
        torch.testing.assert_close(model(x, positions), model.forward_eager(x, positions))


def test_arguments_of_two_sizes_stay_two():
    @support_torch_compile(dynamic_arg_dims={"x": 0, "cache": (0, 2)})
    class Model(nn.Module):
        def forward(self, x, cache):
            return x * 2, cache.sum((0, 2))

    with use_config(eager(cudagraph_mode="PIECEWISE", cudagraph_capture_sizes=[4])):
        model = Model()
    for n, blocks, width in ((3, 5, 7), (3, 5, 7), (3, 5, 7), (4, 2, 9), (2, 3, 3)):
        x, cache = torch.randn(n, 2), torch.randn(blocks, 4, width)
        torch.testing.assert_close(model(x, cache), model.forward_eager(x, cache))


@pytest.mark.parametrize("assign", ["buffer", "attribute"])
def test_a_tensor_assigned_in_the_forward_is_an_error_under_capture(assign):
    @support_torch_compile(dynamic_arg_dims={"x": 0})
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(2))
            self.total = torch.zeros(2)

        def forward(self, x):
            if assign == "buffer":
                self.seen = self.seen + x.sum(0)
            else:
                self.total = self.total + x.sum(0)
            return x * 2

    with use_config(eager(cudagraph_mode=CUDAGraphMode.PIECEWISE)):
        model = Model()
    name = "seen" if assign == "buffer" else "total"
    with pytest.raises(BufferAssignedError, match=rf"test_wrapper\.py:\d+: forward assigns self\.{name}"):
        model(torch.ones(3, 2))
    with use_config(eager()):
        model = Model()
    model(torch.ones(3, 2))
    assert getattr(model, name).tolist() == [3, 3]


def test_a_buffer_written_in_place_is_fine_under_capture():
    @support_torch_compile(dynamic_arg_dims={"x": 0})
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(2))

        def forward(self, x):
            self.seen += x.sum(0)
            return {"seen": x * 2}

    with use_config(eager(cudagraph_mode=CUDAGraphMode.PIECEWISE, cudagraph_capture_sizes=[3])):
        model = Model()
    for _ in range(4):
        model(torch.ones(3, 2))
    assert model.seen.tolist() == [12, 12]


@pytest.mark.parametrize("mode", ["STOCK_TORCH_COMPILE", "DYNAMO_TRACE_ONCE", "FULL"])
def test_each_mode_computes_the_same(mode):
    config = CompilationConfig(mode=mode, backend="eager", splitting_ops=["core::attention"])
    with use_config(config):
        model = Plain()
    with Heard() as heard:
        compare(model, 3, 5, 1)
    split = mode == "FULL"
    assert len(heard.of(PieceCompiled)) == (0 if mode == "STOCK_TORCH_COMPILE" else 1)
    changed = {event.key for event in heard.of(ConfigValue) if event.changed_by == "the compiler"}
    assert ("splitting_ops" in changed) is not split


def test_a_program_without_a_configuration_gets_that_of_the_command_line(monkeypatch):
    monkeypatch.setenv("COMPDBG_CC", '{"backend": "eager", "compile_sizes": "[2]"}')
    model = Plain()
    with Heard() as heard:
        compare(model, 3, 2)
    assert [event.range for event in heard.of(PieceCompiled)] == ["2", "1-"]
    set_by = {event.key: event.changed_by for event in heard.of(ConfigValue)}
    assert set_by["backend"] == "-cc.backend=eager"


def test_enforce_eager_turns_everything_off(monkeypatch):
    monkeypatch.setenv("COMPDBG_CC", '{"enforce_eager": "true"}')
    with use_config(eager(cudagraph_mode="FULL")):
        model = Plain()
    with Heard() as heard:
        compare(model, 3)
    assert [event.enabled for event in heard.of(Decorated)] == [False]
    assert heard.of(PieceCompiled) == []


def test_a_forward_that_breaks_the_graph_says_so_with_its_line():
    @support_torch_compile(dynamic_arg_dims={"x": 0})
    class Model(nn.Module):
        def forward(self, x):
            print("breaks")
            return x * 2 if x.sum() > 0 else x

    with use_config(eager()):
        model = Model()
    with pytest.raises(torch._dynamo.exc.Unsupported, match=r"(?s)x\.sum\(\) > 0|print"):
        model(torch.ones(3, 2))


@pytest.mark.parametrize("mode", ["DYNAMO_TRACE_ONCE", "FULL"])
def test_a_forward_that_computes_nothing_runs_as_it_is(mode):
    @support_torch_compile(dynamic_arg_dims={"x": 0})
    class Passing(nn.Module):
        def forward(self, x, y):
            return y, x

    with use_config(CompilationConfig(mode=mode, backend="eager")), Heard() as heard:
        model = Passing()
        x, y = torch.ones(3, 4), torch.zeros(2)
        for _ in range(2):
            assert all(a is b for a, b in zip(model(x, y), (y, x), strict=True))
    assert [event.reason for event in heard.of(Decorated)] == ["", "its graph holds no operation"]


def test_a_failed_first_call_can_be_tried_again():
    with use_config(eager()):
        model = Plain()
    with pytest.raises(Exception, match=r"mat1 and mat2|shape|size"):
        model(torch.ones(3, 5))
    compare(model, 3)


def test_threads_that_call_first_at_once_compile_once():
    import threading

    with use_config(eager()):
        model = Plain()
    x = torch.randn(3, 8)
    results = []
    with Heard() as heard:
        threads = [threading.Thread(target=lambda: results.append(model(x))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(heard.of(PieceCompiled)) == 1
    assert all(torch.equal(result, results[0]) for result in results)


def test_a_branch_inside_the_graph_runs_without_a_capture():
    @support_torch_compile(dynamic_arg_dims={"x": 0})
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate = nn.Parameter(torch.ones(()))

        def forward(self, x):
            return torch.cond(self.gate > 0, torch.sin, torch.cos, (x,)) + 1

    with use_config(eager(cudagraph_mode=CUDAGraphMode.PIECEWISE, cudagraph_capture_sizes=[4])):
        model = Model()
    with Heard() as heard:
        compare(model, 4, 4, 3)
        with torch.no_grad():
            model.gate.neg_()
        compare(model, 4, 3)
    assert [(event.fault, event.op) for event in heard.of(Capture)] == [("sync", "cond")]
