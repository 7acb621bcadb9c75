"""Pieces with unbacked sizes: what Inductor has to know of a size is assumed and told, not an error."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from compdbg import probe
from compdbg.compiler import CompilationConfig, support_torch_compile, use_config
from compdbg.compiler.compiler_interface import EagerAdaptor, register_compiler
from compdbg.events import Guards, GuardViolation
from tests.compiler.ops import compare
from tests.compiler.sized import Heard

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")]


@support_torch_compile(dynamic_arg_dims={"x": 0})
class Experts(nn.Module):
    """A product with a row a token for each expert: Inductor's CPU lowering asks whether there is one row."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Parameter(torch.randn(4, 8, 16))
        self.down = nn.Parameter(torch.randn(4, 16, 8))

    def forward(self, x):
        return torch.matmul(torch.matmul(x, self.up).relu(), self.down).sum(0)


def test_a_product_that_inductor_lays_out_by_its_rows():
    with use_config(CompilationConfig(dynamic_shapes_config={"type": "unbacked"})):
        model = Experts()
    compare(model, 5, 1, 2, 3, 64)


@support_torch_compile(dynamic_arg_dims={"x": 0})
class HeadsFirst(nn.Module):
    """Results of which more than the first stride depends on the number of rows."""

    def forward(self, x):
        heads = x.unflatten(-1, (2, 4))
        return heads.transpose(0, 1).contiguous(), heads.permute(1, 2, 0).sin(), x.sum(0)


def test_results_lie_as_promised_at_every_size_and_none_is_refused():
    with use_config(CompilationConfig(dynamic_shapes_config={"type": "unbacked"})):
        model = HeadsFirst()
    compare(model, 5, 1, 0, 64)
    x = torch.randn(5, 8)
    with torch.no_grad():
        first, turned, _ = model(x)
    assert (first.stride(), turned.stride()) == ((20, 4, 1), (4, 1, 8))


class Asking(EagerAdaptor):
    """Asks of the size what `asks` says, as a lowering does, or goes on without an answer."""

    name = "asking"
    keeps = False

    def compile(self, graph, example_inputs, options):
        self.asks(next(given for given in example_inputs if isinstance(given, torch.Tensor)))
        return super().compile(graph, example_inputs, options)


@pytest.fixture
def asked(monkeypatch):
    """Compiles a model whose compiler asks `question` in the name of a file; says what was heard."""
    register_compiler("asking", lambda config: Asking())
    heard = Heard()

    def call(question, sizes, file=torch._inductor.__file__):
        names = {"GuardOnDataDependentSymNode": GuardOnDataDependentSymNode}
        exec(compile(question, file, "exec"), names)
        monkeypatch.setattr(Asking, "asks", staticmethod(names["asks"]), raising=False)

        @support_torch_compile(dynamic_arg_dims={"x": 0})
        class Model(nn.Module):
            def forward(self, x):
                return x * 2

        config = CompilationConfig(backend="asking", dynamic_shapes_config={"type": "unbacked"})
        with use_config(config):
            model = Model()
        heard.__enter__()
        compare(model, *sizes)
        return heard

    yield call
    probe.set_sink(None)


OVER_FOUR = "def asks(x):\n    assert x.shape[0] > 4"


def test_a_question_of_torch_is_answered_for_an_ordinary_size_and_told(asked):
    heard = asked(OVER_FOUR, [8, 5, 3])
    ((guard,),) = (event.guards for event in heard.of(Guards) if event.compile_id == "pieces")
    assert (guard.expr, guard.kept, guard.layer) == ("L['x'].size()[0] > 4", False, "inductor")
    assert [violation.seen for violation in heard.of(GuardViolation)] == ["x.shape[0] = 3"]


def test_sizes_are_taken_not_to_equal_anything(asked):
    heard = asked("def asks(x):\n    assert x.shape[0] != 32 and x.shape[0] * 2 != 8", [8, 5, 4])
    assert [violation.expr for violation in heard.of(GuardViolation)] == ["Ne(2*L['x'].size()[0], 8)"]


@pytest.mark.parametrize(
    ("question", "file"),
    [
        ("def asks(x):\n    range(x.shape[0])", torch._inductor.__file__),
        (OVER_FOUR, __file__),
    ],
    ids=["the size itself", "a question of the user's code"],
)
def test_what_stays_an_error(asked, question, file):
    with pytest.raises(Exception, match=r"data-dependent|u0"):
        asked(question, [8], file)


def test_who_expects_no_answer_gets_none(asked):
    prepared = """
def asks(x):
    try:
        bool(x.shape[0] > 4)
    except GuardOnDataDependentSymNode:
        return
    raise AssertionError("answered")
"""
    heard = asked(prepared, [8, 3])
    assert not [event for event in heard.of(Guards) if event.compile_id == "pieces"]
