"""The audit sees the calls of whatever was compiled, and each call once."""

from __future__ import annotations

import functools
import threading

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from compdbg.events import FrameCalls, GuardAudit, Guards, HookError  # noqa: E402
from compdbg.hooks.guards import calls_of  # noqa: E402
from tests.integration.guards_here import compiled, drop_all, found_in, violations  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

ONES = torch.ones(3)
SETTING = {"k": 2.0}


@pytest.fixture(autouse=True)
def setting():
    SETTING["k"] = 2.0


class Gain(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = 2.0

    def forward(self, x):
        return x * self.gain

    def other(self, x, *more, factor=1, **rest):
        return x * self.gain * factor + sum(more)


def multiply(x):
    return x * SETTING["k"]


def broken(x):
    y = x * SETTING["k"]
    torch._dynamo.graph_break()
    return y + SETTING["k"]


def decorated(function):
    @functools.wraps(function)
    def wrapper(*args, **keywords):
        return function(*args, **keywords)

    return wrapper


def change_of(module):
    return lambda: setattr(module, "gain", 3.0)


def a_module():
    module = Gain()
    return compiled(module), (ONES,), change_of(module)


def a_modules_compile():
    module = Gain()
    module.compile(backend="eager", options={"guard_filter_fn": drop_all})
    return module, (ONES,), change_of(module)


def a_bound_method():
    module = Gain()
    return compiled(module.other), (ONES, ONES), change_of(module)


def a_container():
    net = nn.Sequential(nn.Identity(), Gain())
    return compiled(net.forward), (ONES,), change_of(net[1])


def a_decorated_function():
    return compiled(decorated(multiply)), (ONES,), lambda: SETTING.update(k=5.0)


def a_closure():
    factor = 2.0

    def inner(x):
        return x * factor

    def change():
        nonlocal factor
        factor = 3.0

    return compiled(inner), (ONES,), change


def a_function():
    return compiled(multiply), (ONES,), lambda: SETTING.update(k=5.0)


@pytest.mark.parametrize(
    "make",
    [a_function, a_closure, a_decorated_function, a_module, a_modules_compile, a_bound_method, a_container],
)
def test_whatever_was_compiled(record_here, make):
    with record_here() as recorded:
        step, args, change = make()
        step(*args)
        step(*args)
        change()
        step(*args)
        step(*args)
    run = recorded.load()
    (finding,) = found_in(run)
    assert (finding.data["call"], finding.data["violations"], finding.data["calls"]) == (3, 2, 4)
    ((_, counted),) = run.log.of(FrameCalls)[-1:]
    assert counted.calls == 4


def test_frames_resumed_after_a_break_are_one_function(record_here):
    with record_here() as recorded:
        step = torch.compile(broken, backend="eager", options={"guard_filter_fn": drop_all})
        step(ONES)
        SETTING["k"] = 3.0
        step(ONES)
        step(ONES)
    (finding,) = found_in(recorded.load())
    assert (finding.data["violations"], finding.data["calls"]) == (2, 3)


def test_an_object_compiled_ahead_of_time(record_here):
    with record_here() as recorded:
        loaded = torch.compile(multiply, fullgraph=True, options={"guard_filter_fn": drop_all}).aot_compile(
            ((ONES,), {})
        )
        loaded(ONES)
        SETTING["k"] = 9.0
        loaded(ONES)
    (finding,) = found_in(recorded.load())
    assert (finding.data["seen"], finding.data["violations"]) == ("9.0", 1)


def test_with_guards_skipped_by_a_stance_too(record_here):
    with record_here() as recorded:
        step = compiled(multiply)
        step(ONES)
        SETTING["k"] = 9.0
        with torch.compiler.set_stance(skip_guard_eval_unsafe=True):
            step(ONES)
            step(ONES)
    (finding,) = found_in(recorded.load())
    assert finding.data["violations"] == 2


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.gain = nn.Linear(3, 3), 2

    def forward(self, x):
        if x.shape[0] > 4:
            x = x * 2
        return self.linear(x) * self.gain


def test_kept_guards_that_a_stance_skips_are_audited_too(record_here):
    model, x = Model(), torch.ones(6, 3)
    with record_here() as recorded, torch.no_grad():
        step = torch.compile(model, backend="eager", dynamic=True)
        for rows in (6, 7):
            step(torch.ones(rows, 3))
        with torch.compiler.set_stance(skip_guard_eval_unsafe=True):
            step(x)
            step(x)
            model.gain = 5
            assert not torch.equal(step(x), model(x))
        model.gain = 2
        step(x)
    run = recorded.load()
    assert run.log.of(HookError) == []
    (finding,) = found_in(run)
    assert (finding.data["wanted"], finding.data["seen"], finding.data["violations"]) == ("2", "5", 1)
    assert finding.data["dropped_by"] == "torch.compiler.set_stance(skip_guard_eval_unsafe=True)"
    assert finding.where.line == Model.forward.__code__.co_firstlineno + 3
    (entry,) = run.entries
    assert (entry.calls, entry.checked) == (6, 3)


def test_a_partial_filter_still_recompiles_and_each_entry_is_audited(record_here):
    def keep_tensors(guards):
        return [guard.guard_type == "TENSOR_MATCH" for guard in guards]

    with record_here() as recorded:
        step = torch.compile(
            multiply, backend="eager", dynamic=False, options={"guard_filter_fn": keep_tensors}
        )
        for size in (3, 4, 3):
            step(torch.ones(size))
        SETTING["k"] = 7.0
        for size in (3, 4, 5):
            step(torch.ones(size))
    run = recorded.load()
    entries = run.entries
    assert [(e.compile_id, e.calls) for e in entries] == [("0/0", 3), ("0/1", 2), ("0/2", 1)]
    (finding,) = found_in(run)
    assert (finding.data["violations"], finding.data["call"]) == (2, 4)
    assert all(g.kept == (g.type == "TENSOR_MATCH") for e in entries for g in e.guards if g.type != _UNASKED)


_UNASKED = "NO_TENSOR_ALIASING"


def test_kept_guards_are_recorded_and_calls_counted_but_nothing_is_audited(record_here):
    with record_here() as recorded:
        step = torch.compile(multiply, backend="eager")
        for _ in range(25):
            step(ONES)
        assert calls_of(multiply.__code__) == 25
    log = recorded.load().log
    ((_, event),) = log.of(Guards)
    assert all(guard.kept for guard in event.guards)
    assert (event.drop_requested, event.audit) == (False, "not-audited")
    assert log.of(GuardAudit) == []
    assert [counted.calls for _, counted in log.of(FrameCalls)] == [10, 25]


def test_calls_of_a_function_are_those_of_all_its_entries(record_here):
    with record_here():
        step = torch.compile(multiply, backend="eager", dynamic=False)
        for size in (3, 4, 3, 4, 5):
            step(torch.ones(size))
        assert calls_of(multiply.__code__) == 5
    assert calls_of(multiply.__code__) == 0


def test_after_a_reset_ids_start_again_and_entries_are_told_apart(record_here):
    with record_here() as recorded:
        for value in (2.0, 4.0):
            SETTING["k"] = value
            torch._dynamo.reset()
            step = compiled(multiply)
            step(ONES)
        SETTING["k"] = 5.0
        step(ONES)
    run = recorded.load()
    assert [(e.compile_id, len(e.violations)) for e in run.entries] == [("0/0", 0), ("0/0", 1)]
    (finding,) = found_in(run)
    assert finding.data["wanted"] == "4.0"


def test_from_several_threads(record_here):
    with record_here() as recorded:
        step = compiled(multiply)
        step(ONES)
        SETTING["k"] = 3.0
        threads = [threading.Thread(target=lambda: [step(ONES) for _ in range(20)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    run = recorded.load()
    assert run.log.of(HookError) == []
    (finding,) = found_in(run)
    assert finding.data["calls"] == 81
    assert 1 <= finding.data["violations"] <= 80


def test_a_compiled_function_that_calls_another(record_here):
    inner = compiled(multiply)

    @torch._dynamo.disable
    def between(x):
        return inner(x)

    def outer(x):
        return between(x) + SETTING["k"]

    with record_here() as recorded:
        step = torch.compile(outer, backend="eager", options={"guard_filter_fn": drop_all})
        step(ONES)
        SETTING["k"] = 3.0
        step(ONES)
    run = recorded.load()
    assert run.log.of(HookError) == []
    assert {f.title.split("`")[1] for f in found_in(run)} == {"outer", "multiply"}


def test_a_call_that_fails_is_audited_all_the_same(record_here):
    def checked(x, k):
        return x.view(k, -1)

    with record_here() as recorded:
        step = compiled(checked)
        step(torch.ones(6), 2)
        with pytest.raises(RuntimeError):
            step(torch.ones(7), 7)
    assert {v.name for v in violations(recorded.load())} == {"k", "x.shape[0]"}
