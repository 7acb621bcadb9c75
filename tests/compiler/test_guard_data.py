"""Dropped guards as data: what is kept of a trace, and the evaluator that checks it without eval."""

from __future__ import annotations

import linecache

import pytest
import torch
from torch import nn

from compdbg.compiler import support_torch_compile, use_config
from compdbg.compiler.guard_check import Checker
from compdbg.compiler.guard_data import Condition, spoken
from compdbg.compiler.guard_sources import CannotFollow, parsed
from compdbg.compiler.ops.quant import quantize_static
from compdbg.compiler.piece_cache import forget
from compdbg.events import CacheLookup, GuardAudit, Guards, GuardViolation
from compdbg.findings.collect import find_all
from tests.compiler.ops import eager
from tests.compiler.sized import Heard

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")]
SCALE = 2


class Options:
    def __init__(self) -> None:
        self.names = ["a", "b"]
        self.table = {"k": 2.5}


@support_torch_compile(dynamic_arg_dims={"x": 0})
class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(2))
        self.eps = 1.0
        self.options = Options()

    def forward(self, x, flag=None):
        for layer in self.layers:
            x = layer(x)
        if x.shape[0] > 4:
            x = x * 3
        if flag is not None:
            x = x + 1
        return x * self.eps * SCALE * self.options.table["k"] * len(self.options.names)


def warm(*, recorded=True):
    """A model that was loaded from the cache, and what is heard of it."""
    for _ in range(2):
        forget()
        with use_config(eager()):
            model = Model()
        with Heard() as heard:
            model(torch.randn(6, 4))
    heard.__enter__()
    return model, heard


def violations(heard):
    return {v.name: (v.wanted, v.seen, v.call, v.guard_kind, v.effect) for v in heard.of(GuardViolation)}


@pytest.fixture(autouse=True)
def not_recording():
    from compdbg import probe

    yield
    probe.set_sink(None)


def test_a_warm_start_lists_the_guards_that_it_knows_and_counts_the_others():
    _, heard = warm()
    (guards,) = heard.of(Guards)
    assert (guards.compile_id, guards.audit, guards.drop_requested) == ("loaded", "sampled", True)
    assert guards.audit_reason.startswith("loaded from the cache: ")
    expressions = {guard.expr for guard in guards.guards}
    assert {
        "L['self'].eps == 1.0",
        "G['SCALE'] == 2",
        "L['flag'] == None",
        "L['self'].options.table['k'] == 2.5",
        "len(L['self'].options.names) == 2",
        "L['x'].size()[0] > 4",
    } <= expressions


def test_a_warm_start_that_is_as_it_was_violates_nothing():
    model, heard = warm()
    for n in (6, 5, 100):
        model(torch.randn(n, 4))
    assert violations(heard) == {}


def test_what_changes_later_is_a_violation_with_value_and_line(monkeypatch):
    model, heard = warm()
    model(torch.randn(3, 4))
    model.eps = 7.0
    model.options.names.append("c")
    monkeypatch.setitem(globals(), "SCALE", 9)
    model(torch.randn(6, 4))
    assert violations(heard) == {
        "x.shape[0]": ("x.shape[0] > 4", "x.shape[0] = 3", 2, "shape", "differs"),
        "self.eps": ("1.0", "7.0", 3, "constant", "differs"),
        "self.options.names": ("2", "3", 3, "constant", "differs"),
        "SCALE": ("2", "9", 3, "constant", "differs"),
    }
    lines = {v.name: v.where for v in heard.of(GuardViolation)}
    assert lines["x.shape[0]"].file == __file__
    assert "eps" in linecache.getline(__file__, lines["self.eps"].line)


def test_the_audit_is_a_sample_and_says_how_large():
    model, heard = warm()
    x = torch.randn(6, 4)
    for _ in range(99):
        model(x)
    model(torch.randn(7, 4))
    from compdbg import probe

    probe.set_sink(None)
    last = heard.of(GuardAudit)[-1]
    assert last.calls == 101
    assert last.checked == 16 + len([32, 64]) + 1


@pytest.mark.parametrize(("audit", "checked"), [("all", 102), ("off", None)])
def test_it_is_as_large_as_the_run_was_told(audit, checked, monkeypatch):
    monkeypatch.setattr(Heard, "audit", audit, raising=False)
    model, heard = warm()
    x = torch.randn(6, 4)
    for _ in range(101):
        model(x)
    from compdbg import probe

    probe.set_sink(None)
    assert [event.checked for event in heard.of(GuardAudit)][-1:] == ([checked] if checked else [])


def condition(source, operator, value, **more):
    return Condition(source=source, operator=operator, value=value, guard="TEST", **more)


def seen(condition, **arguments):
    found = Checker([condition], {"FLAG": True}).violations(arguments)
    return found[0].seen if found else None


@pytest.mark.parametrize(
    ("made", "argument", "wanted"),
    [
        (condition("L['a']", "equals", "1"), 1, None),
        (condition("L['a']", "equals", "1"), 1.0, "1.0"),
        (condition("L['a']", "equals", "1"), True, "True"),
        (condition("L['a']", "equals", "'x'"), object(), "builtins.object"),
        (condition("L['a'].real", "equals", "2"), 2, None),
        (condition("L['a']['k'][1]", "equals", "5"), {"k": [4, 5]}, None),
        (condition("L['a']['k'][1]", "equals", "5"), {"k": [4]}, "nothing there"),
        (condition("L['a'].missing", "equals", "5"), 3, "nothing there"),
        (condition("L['a']", "type", "builtins.dict"), {}, None),
        (condition("L['a']", "type", "builtins.dict"), [], "builtins.list"),
        (condition("L['a']", "length", 2), [1, 2], None),
        (condition("L['a']", "keys", ["'b'"]), {"c": 1}, "'c'"),
        (condition("L['a']", "has", "real"), 1, None),
        (condition("L['a']", "lacks", "names"), Options(), "an attribute names"),
        (condition("G['FLAG']", "equals", "True"), None, None),
        (condition("G['__import_torch_dot_nn']", "is", ".torch.nn"), None, None),
        (condition("G['__builtins_dict___0']['len']", "is", "builtins.len"), None, None),
    ],
)
def test_each_kind_of_condition(made, argument, wanted):
    assert seen(made, a=argument) == wanted


@pytest.mark.parametrize(
    ("expression", "size", "holds"),
    [
        ("s0 > 4", 5, True),
        ("s0 > 4", 4, False),
        ("Eq(Mod(s0, 8), 0)", 16, True),
        ("Ne(s0, 1)", 1, False),
        ("s0*s0 - 2*s0 <= 8", 4, True),
        ("(s0//2) + 1 >= 3", 3, False),
        ("(Max(1, s0) < 3) & Ne(s0, 2)", 1, True),
        ("-s0 < -2", 3, True),
    ],
)
def test_conditions_on_sizes_only_calculate(expression, size, holds):
    made = condition("L['x'].size()[0]", "shape", expression, sizes={"s0": "L['x'].size()[0]"})
    assert (seen(made, x=torch.empty(size, 2)) is None) is holds


def test_tensors_are_compared_by_what_a_graph_relies_on():
    x = torch.randn(4, 3)
    torch._dynamo.mark_dynamic(x, 0)
    from compdbg.compiler.guard_values import tensor_properties

    made = condition("L['x']", "tensor", tensor_properties(x))
    assert seen(made, x=torch.randn(9, 3)) is None
    assert seen(made, x=torch.randn(9, 4)) == "sizes [9, 4], strides [4, 1]"
    assert seen(made, x=torch.randn(4, 3).double()) == "dtype torch.float64"
    assert seen(made, x=torch.randn(4, 3, requires_grad=True)) == "requires_grad True"
    assert seen(made, x=None) == "builtins.NoneType"


@pytest.mark.parametrize(("dtype", "found"), [("int8", 1), ("float8_e4m3fn", 2), ("int16", None)])
def test_a_dtype_is_a_key_like_any_other(dtype, found):
    made = condition(f"L['table'][torch.{dtype}]", "equals", str(found))
    table = {torch.int8: 1, torch.float8_e4m3fn: 2}
    assert seen(made, table=table) == (None if found else "nothing there")


@support_torch_compile(dynamic_arg_dims={"x": 0})
class Scaled(nn.Module):
    factor = 2.0

    def forward(self, x):
        return x * self.factor


def test_of_a_guard_that_the_pipeline_dropped_nothing_is_advised_that_its_user_can_not_do(record_here):
    with record_here() as run, use_config(eager(disable_cache=True)), torch.inference_mode():
        model = Scaled()
        model.factor = 1.0
        model(torch.ones(4, 2))
        model.factor = 3.0
        model(torch.ones(5, 2))
    (finding,) = [f for f in find_all(run.load()) if f.code == "guard-dropped-violated"]
    assert finding.data["effect"] == "differs"
    assert "; compdbg.compiler dropped it." in finding.cause
    assert finding.suggestion.startswith("Make `self.factor` a tensor argument")
    assert "guard_filter_fn" not in finding.suggestion


@support_torch_compile(dynamic_arg_dims={"x": 0})
class Quantised(nn.Module):
    def forward(self, x, scale):
        return quantize_static(x, scale, torch.int8)


def test_guards_of_a_model_that_quantises_can_be_kept(tmp_path):
    with (
        Heard() as heard,
        use_config(eager(disable_cache=False, cache_dir=str(tmp_path))),
        torch.inference_mode(),
    ):
        Quantised()(torch.randn(5, 8), torch.tensor(0.1))
    reasons = [e.reason for e in heard.of(CacheLookup)]
    assert reasons and not any("can't be kept as data" in reason for reason in reasons)


@pytest.mark.parametrize(
    "source",
    [
        "__import__('os').system('true')",
        "L['x'].__class__.__bases__[0].__subclasses__()",
        "L['x'].clear()",
        "(lambda: 1)()",
        "L['x'] if 1 else 2",
        "L['x'].size()()",
        "L['x'](L['y'])",
        "getattr(L['x'], L['y'])",
        "X['x']",
        "L['x'][torch.hub]",
        "L['x'",
    ],
)
def test_a_source_is_walked_never_evaluated(source):
    with pytest.raises(CannotFollow):
        parsed(source)
    checker = Checker([condition(source, "equals", "1")], {})
    assert (checker.conditions, len(checker.cannot_follow)) == ([], 1)
    assert checker.violations({"x": {}}) == []


def test_an_expression_over_sizes_that_calls_something_else_is_not_followed():
    made = condition("L['x']", "shape", "open('/etc/passwd')", sizes={"s0": "L['x'].size()[0]"})
    assert Checker([made], {}).cannot_follow == [made]


def test_sources_are_told_as_the_user_writes_them():
    assert (
        spoken("L['self']._modules['layers']._modules['0']._parameters['weight']") == "self.layers.0.weight"
    )
    assert spoken("G['SCALE']") == "SCALE"
    assert spoken("L['x'].size()[0]") == "x.shape[0]"
