"""What was asked to be compiled: requests that came to nothing, and options that lost their filter."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tests.integration.frames_here import Record, compiled, findings, ones, only

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


def drop_all(guards):
    return [False] * len(guards)


class TestRequests:
    def test_what_was_asked_is_recorded_with_the_users_line(self, record_here: Record) -> None:
        class Model(torch.nn.Module):
            def forward(self, x):
                return x + 1

        with record_here() as run:
            compiled(Model(), fullgraph=True, dynamic=True)
            Model().compile(backend="eager")
            torch.compile(lambda x: x, mode="max-autotune")
        first, second, third = (request for _, request in run.load().frames.requests.values())
        assert (first.target, first.backend, first.fullgraph, first.dynamic) == ("Model", "eager", True, True)
        assert first.target_where.function == "forward"
        assert first.where.file == __file__
        assert (second.target, second.where.line - first.where.line) == ("Model", 1)
        assert (third.target, third.backend, third.mode) == ("<lambda>", "inductor", "max-autotune")

    def test_a_decorated_function_counts_from_its_decorator(self, record_here: Record) -> None:
        with record_here() as run:

            @torch.compile(backend="eager")
            def step(x):
                return x + 1

            step(ones(3))
        [(_, request)] = run.load().frames.requests.values()
        assert request.target.endswith("step")
        [made] = run.load().frames.compiles
        assert made.request == request.request


class TestGuardsKept:
    def test_a_dict_used_twice_keeps_the_guards_of_the_second(self, record_here: Record) -> None:
        options = {"guard_filter_fn": drop_all}
        with record_here() as run:
            first = compiled(lambda x: x + 1, options=options)
            second = compiled(lambda x: x * 2, options=options)
            first(ones(3))
            second(ones(3))
        finding = only(run, "guards-kept")
        assert finding.where.line == finding.data["taken_at"]["line"] + 1
        assert "dict" in finding.suggestion

    def test_a_dict_each_is_clean(self, record_here: Record) -> None:
        with record_here() as run:
            for _ in range(2):
                compiled(lambda x: x + 1, options={"guard_filter_fn": drop_all})(ones(3))
            compiled(lambda x: x + 1, options={})(ones(3))
        assert findings(run) == []

    def test_one_that_is_never_called_is_no_alarm(self, record_here: Record) -> None:
        options = {"guard_filter_fn": drop_all}
        with record_here() as run:
            compiled(lambda x: x + 1, options=options)
            compiled(lambda x: x * 2, options=options)
        assert findings(run) == []


class Wrapped(torch.nn.Module):
    @torch.compiler.disable
    def forward(self, x):
        return x + 1


class Counting(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def under_a_stance():
    with torch.compiler.set_stance("force_eager"):
        compiled(lambda x: x + 1, fullgraph=True)(ones(3))


def never_compiled_before():
    with torch.compiler.set_stance("eager_on_recompile"):
        compiled(lambda x: x + 1)(ones(3))


def switched_off():
    with torch._dynamo.config.patch(disable=True):
        compiled(lambda x: x + 1)(ones(3))


def wrapped_in_disable():
    compiled(Wrapped())(ones(3))


def under_a_dispatch_mode():
    with Counting():
        compiled(torch.nn.Linear(3, 3))(ones(3, 3))


def first_called_without_work():
    function = compiled(lambda x: x * 2 if x.shape[0] > 10 else x)
    function(ones(3))
    function(ones(12))


class TestNothingCompiled:
    @pytest.mark.parametrize(
        ("program", "by"),
        [
            (under_a_stance, "stance"),
            (never_compiled_before, "stance"),
            (switched_off, "config"),
            (wrapped_in_disable, "disabled"),
            (under_a_dispatch_mode, "skipped"),
            (first_called_without_work, "skipped"),
        ],
    )
    def test_why(self, record_here: Record, program, by: str) -> None:
        with record_here() as run:
            program()
        finding = only(run, "nothing-compiled")
        assert finding.severity == "warning"
        assert finding.data["by"] == by
        assert finding.where.file == __file__

    def test_one_stance_is_one_finding_however_much_it_keeps_eager(self, record_here: Record) -> None:
        with record_here() as run, torch.compiler.set_stance("force_eager"):
            compiled(torch.nn.Linear(3, 3))(ones(3, 3))
            compiled(lambda x: x + 1)(ones(3))
        assert only(run, "nothing-compiled").data["targets"] == ["Linear", "<lambda>"]

    def test_asking_for_nothing_in_so_many_words_is_no_alarm(self, record_here: Record) -> None:
        with record_here() as run:
            compiled(lambda x: x + 1, disable=True)(ones(3))
        assert [(f.code, f.severity) for f in findings(run)] == [("nothing-compiled", "info")]

    def test_clean_twins(self, record_here: Record) -> None:
        with record_here() as run:
            torch.compile(lambda x: x)  # never called
            later = compiled(lambda x: x + 1)
            with torch.compiler.set_stance("force_eager"):
                later(ones(3))
            later(ones(3))  # compiled after all
            warm = compiled(lambda x: x - 1)
            with torch.compiler.set_stance("eager_then_compile"):
                warm(ones(3))
                warm(ones(4))
        assert findings(run) == []

    def test_a_frame_that_breaks_is_a_break_and_nothing_else(self, record_here: Record) -> None:
        def loop(x):
            for _ in range(2):
                torch._dynamo.graph_break()
            return x + 1

        with record_here() as run:
            compiled(loop)(ones(3))
        only(run, "graph-break")

    @pytest.mark.parametrize("name", ["TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE"])
    def test_the_environment(self, run_recorded: Callable[..., object], name: str) -> None:
        recorded = run_recorded(
            """
            import torch

            @torch.compile(backend="eager")
            def step(x):
                return x + 1

            step(torch.ones(3))
            """,
            **{name: "1"},
        )
        [finding] = recorded.found("nothing-compiled")
        assert name in finding.title
        assert recorded.alarms == ["nothing-compiled"]
