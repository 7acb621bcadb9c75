"""The audit leaves no trace in the program: results, memory, exceptions, recompiles are as without it."""

from __future__ import annotations

import gc
import signal
import threading
import time
import weakref

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from compdbg.events import FrameCalls, GuardAudit, HookError  # noqa: E402
from compdbg.hooks import audit as audit_module  # noqa: E402
from tests.integration.guards_here import alarms_of, compiled, violations  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

ONES = torch.ones(3)
SETTING = {"k": 2.0}


@pytest.fixture(autouse=True)
def setting():
    SETTING["k"] = 2.0


def multiply(x):
    return x * SETTING["k"]


def product(x, w):
    return x @ w


def alive(*references):
    gc.collect()
    return [reference() is not None for reference in references]


def test_inputs_are_freed(record_here):
    with record_here():
        step = compiled(product)
        x, w = torch.ones(4, 4), torch.ones(4, 4)
        step(x, w)
        step(torch.ones(4, 4), torch.ones(4, 4).double().float())
        references = weakref.ref(x), weakref.ref(w)
        del x, w
        assert alive(*references) == [False, False]


def test_inputs_of_a_violating_call_are_freed(record_here):
    with record_here():
        step = compiled(multiply)
        step(ONES)
        SETTING["k"] = 3.0
        x = torch.ones(5)
        step(x)
        reference = weakref.ref(x)
        del x
        assert alive(reference) == [False]


@pytest.mark.parametrize("dropped", [True, False])
def test_a_module_and_its_weights_are_freed_with_their_entry(record_here, dropped):
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.k = nn.Linear(3, 3), 2

        def forward(self, x):
            return self.linear(x) * self.k

    with record_here():
        module = Scaled()
        step = compiled(module) if dropped else torch.compile(module, backend="eager")
        step(torch.ones(2, 3))
        module.k = 3
        step(torch.ones(2, 3))
        references = weakref.ref(module), weakref.ref(module.linear.weight)
        del module, step
        assert alive(*references) == [False, False]


def test_a_reset_frees_what_the_audit_held(record_here):
    """torch itself keeps an entry's guards as long as a type lives that they name."""
    made = []

    class Noted(audit_module.Audit):
        def __init__(self, *args):
            super().__init__(*args)
            made.append(weakref.ref(self))

    with record_here(), pytest.MonkeyPatch.context() as patch:
        patch.setattr("compdbg.hooks.guard_entries.Audit", Noted)
        step = compiled(multiply)
        step(ONES)
        SETTING["k"] = 3.0
        step(ONES)
        assert alive(*made) == [True]
        torch._dynamo.reset()
        left = made[0]()
        assert left is None or (left._tree, left._state, left._watches) == (None, None, [])


def test_after_the_recording_entries_live_on_without_us(record_here):
    with record_here() as recorded:
        step = compiled(multiply)
        step(ONES)
    SETTING["k"] = 3.0
    before = recorded.load().log.records
    assert torch.equal(step(ONES), ONES * 2)
    with record_here() as second:
        step(ONES)
    assert len(recorded.load().log.records) == len(before)
    assert violations(second.load()) == []


def test_a_fault_of_ours_is_recorded_and_no_recompile(record_here, monkeypatch):
    with record_here() as recorded:
        step = compiled(multiply)
        step(ONES)
        monkeypatch.setattr("compdbg.hooks.audit_causes._JUDGES", None)
        SETTING["k"] = 3.0
        results = [step(ONES) for _ in range(3)]
    assert all(torch.equal(result, ONES * 2) for result in results)
    log = recorded.load().log
    (error,) = [event.error for _, event in log.of(HookError)]
    assert error.startswith("AttributeError: 'NoneType'")
    assert [event.calls for _, event in log.of(FrameCalls)][-1] == 4
    assert len(torch._dynamo.eval_frame._debug_get_cache_entry_list(multiply)) == 1


def test_users_equality_that_raises_is_contained(record_here):
    class Odd:
        def __init__(self):
            self.value = 2

        def __eq__(self, other):
            raise RuntimeError("no comparison")

        __hash__ = object.__hash__

    def by_value(x, odd):
        return x * odd.value

    with record_here() as recorded:
        step = compiled(by_value)
        step(ONES, Odd())
        other = Odd()
        other.value = 3
        step(ONES, other)
    log = recorded.load()
    assert log.log.of(HookError) == []
    assert [v.name for v in violations(log)] == ["odd.value"]


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="needs alarms")
@pytest.mark.parametrize("kind", [TimeoutError, KeyboardInterrupt, SystemExit])
def test_an_exception_of_a_signal_handler_reaches_the_program(record_here, monkeypatch, kind):
    """Raised while our code runs in a place from which nothing can be raised."""
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals need the main thread")

    def handler(number, frame):
        raise kind

    before = signal.signal(signal.SIGUSR1, handler)
    original = audit_module.Audit.check

    def interrupted(self, f_locals):
        original(self, f_locals)
        signal.raise_signal(signal.SIGUSR1)

    try:
        with record_here() as recorded:
            step = compiled(multiply)
            step(ONES)
            monkeypatch.setattr(audit_module.Audit, "check", interrupted)
            with pytest.raises(kind):
                step(ONES)
                deadline = time.monotonic() + 20
                while time.monotonic() < deadline:
                    pass
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert recorded.load().log.of(HookError) == []
    assert len(torch._dynamo.eval_frame._debug_get_cache_entry_list(multiply)) == 1


class Watching(torch.overrides.TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.seen.append(function)
        return function(*args, **(kwargs or {}))


def test_torch_function_modes_of_the_program_see_nothing_of_the_audit(record_here):
    seen = []
    for options in ({"audit": "all"}, {"audit": "off"}):
        torch._dynamo.reset()
        SETTING["k"] = 2.0
        x, four, one = torch.randn(6, 3), torch.randn(4, 3), torch.randn(1, 3)
        torch._dynamo.mark_dynamic(x, 0)
        with record_here(**options):
            step = compiled(multiply, "aot_eager")
            step(x)
            SETTING["k"] = 3.0
            with Watching() as mode:
                step(four)
                step(one)
        seen.append(mode.seen)
    assert seen[0] == seen[1]


def test_random_numbers_are_as_without_us(record_here):
    def noisy(x):
        return x + torch.rand_like(x)

    results = []
    for context in (record_here(audit="all"), record_here(audit="off")):
        torch._dynamo.reset()
        torch.manual_seed(0)
        x = torch.ones(6, 3)
        torch._dynamo.mark_dynamic(x, 0)
        with context:
            step = compiled(noisy)
            results.append([step(value) for value in (x, torch.ones(1, 3), torch.ones(4, 3))])
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_audit_off_records_guards_and_checks_none(record_here):
    with record_here(audit="off") as recorded:
        step = compiled(multiply)
        step(ONES)
        SETTING["k"] = 3.0
        step(ONES)
    run = recorded.load()
    assert (violations(run), run.log.of(GuardAudit)) == ([], [])
    (entry,) = run.entries
    assert (entry.audit, len(entry.dropped)) == ("not-audited", len(entry.guards))
    assert "audit off" in entry.audit_reason
    assert run.log.of(FrameCalls)[-1][1].calls == 2


def test_no_audit_where_torch_builds_its_guards_another_way(record_here, monkeypatch):
    """With a filter this torch builds twice, and the first tree is free for us; another may not."""
    monkeypatch.setattr("compdbg.hooks.guards._builds_twice", lambda init: False)
    with record_here() as recorded:
        step = compiled(multiply)
        step(ONES)
        SETTING["k"] = 3.0
        step(ONES)
    run = recorded.load()
    assert violations(run) == []
    (entry,) = run.entries
    assert "another way" in entry.audit_reason
    assert {guard.kept for guard in entry.guards} == {False}


def test_an_audit_of_all_calls_counts_each(record_here):
    with record_here(audit="all") as recorded:
        step = compiled(multiply)
        step(ONES)
        SETTING["k"] = 3.0
        for _ in range(300):
            step(ONES)
    (finding,) = alarms_of(recorded.load())
    assert (finding.data["violations"], finding.data["checked"]) == (300, 300)


def test_a_budget_checks_the_first_hundred_and_each_new_kind_of_call(record_here):
    with record_here() as recorded:
        step = compiled(multiply)
        for _ in range(101):
            step(ONES)
        audited = _checked(recorded)
        assert audited == 99  # the hundred's first was the compile
        for _ in range(2000):
            step(ONES)
        sampled = _checked(recorded) - audited
        assert 1 <= sampled < 1000
        SETTING["k"] = 3.0
        step(torch.ones(7))
    assert [v.name for v in violations(recorded.load()) if v.effect != "same"] == ["SETTING['k']"]


def _checked(recorded):
    from compdbg.hooks.frame_calls import tell_all

    tell_all()
    return recorded.load().log.of(GuardAudit)[-1][1].checked
