"""Which calls are audited."""

from __future__ import annotations

import pytest

from compdbg.hooks.audit_budget import Budget


class Clock:
    """Time that passes only where the test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("time.perf_counter", clock)
    return clock


def run(budget: Budget, clock: Clock, calls: int, *, frame: float, audit: float, first: int = 2) -> list[int]:
    """The calls that were audited, of a frame that takes `frame` seconds a call, an audit `audit`."""
    audited = []
    for call in range(first, first + calls):
        if budget.wants(call, {"x": 1}):
            audited.append(call)
            began = clock.now
            clock.now += audit
            budget.spent(call, began, clock.now)
        clock.now += frame
    return audited


def test_the_first_hundred_calls_are_audited(clock: Clock) -> None:
    assert run(Budget(False, ()), clock, 98, frame=1e-6, audit=1e-3) == list(range(2, 100))


def test_then_audits_take_one_percent_of_the_frames_time(clock: Clock) -> None:
    budget = Budget(False, ())
    audited = run(budget, clock, 10_000, frame=1e-4, audit=5e-6)
    later = [call for call in audited if call > 110]
    share = len(later) * 5e-6 / (10_000 * 1e-4)
    assert 0.005 < share <= 0.01


def test_an_audit_that_is_cheap_enough_is_made_on_every_call(clock: Clock) -> None:
    audited = run(Budget(False, ()), clock, 300, frame=1.0, audit=1e-4)
    assert len(audited) == 300


def test_idle_time_between_calls_is_not_the_frames(clock: Clock) -> None:
    """A server that waits a second for its next request does not have a second's worth of audits."""
    budget = Budget(False, ())
    run(budget, clock, 200, frame=1e-4, audit=1e-5)
    clock.now += 1.0
    audited = run(budget, clock, 1000, frame=1e-4, audit=1e-5, first=202)
    assert len(audited) < 150


def test_all_means_all(clock: Clock) -> None:
    assert len(run(Budget(True, ()), clock, 500, frame=1e-9, audit=1.0)) == 500


@pytest.mark.parametrize(
    "new",
    [
        {"x": 2},
        {"x": 1.0},
        {"x": None},
        {"x": True},
        {"x": [1]},
        {"x": {"a": 1}},
        {"x": 1, "y": 1},
        {"x": object()},
    ],
)
def test_a_call_of_a_new_kind_is_audited_once(clock: Clock, new: dict[str, object]) -> None:
    budget = Budget(False, ())
    run(budget, clock, 150, frame=1e-7, audit=1e-2)
    assert not budget.wants(1000, {"x": 1})
    assert budget.wants(1001, new)
    assert not budget.wants(1002, new)


def test_kinds_without_end_are_no_longer_told_apart(clock: Clock) -> None:
    budget = Budget(False, ())
    run(budget, clock, 150, frame=1e-7, audit=1e-2)
    audited = [n for n in range(5000) if budget.wants(1000, {"x": n})]
    assert len(audited) <= 1024
