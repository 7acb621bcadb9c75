"""Compiles that raise: the stage, the op, the line, the innermost cause, and what the program did with it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.integration.frames_here import Record, alarms, compiled, line_of, ones, only, tried

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


@torch.library.custom_op("frames_test::no_fake", mutates_args=())
def no_fake(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


@torch.library.custom_op("frames_test::fails_in_aot", mutates_args=())
def fails_in_aot(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


@fails_in_aot.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    import traceback

    if any("_functorch" in frame.filename for frame in traceback.extract_stack()):
        raise KeyError("not in AOT")
    return torch.empty_like(x)


def uses_no_fake(x):
    y = x * 2
    return torch.ops.frames_test.no_fake(y) + 1


def uses_fails_in_aot(x):
    y = x * 2
    return torch.ops.frames_test.fails_in_aot(y) + 1


def refusing(graph, inputs):
    raise ValueError("this backend compiles nothing")


def test_an_op_without_a_fake_fails_at_its_line(record_here: Record) -> None:
    with record_here() as run, tried():
        compiled(uses_no_fake)(ones(3))
    finding = only(run, "compile-failed")
    assert finding.severity == "error"
    assert finding.where.line == line_of(uses_no_fake, "no_fake(y)")
    assert finding.data["stage"] == "dynamo"
    assert finding.data["op"] == "frames_test.no_fake"
    assert finding.data["root_error"] == "RuntimeError"
    assert "register_fake" in finding.suggestion


def test_a_failure_in_aot_names_the_op_and_the_models_line(record_here: Record) -> None:
    with record_here() as run, tried():
        compiled(uses_fails_in_aot, backend="aot_eager")(ones(3))
    finding = only(run, "compile-failed")
    assert finding.data["stage"] == "aot"
    assert finding.data["root_error"] == "KeyError"
    assert finding.where.line == line_of(uses_fails_in_aot, "fails_in_aot(y)")


def test_a_backend_that_raises_is_shown_where_it_does(record_here: Record) -> None:
    with record_here() as run, tried():
        torch.compile(lambda x: x + 1, backend=refusing)(ones(3))
    finding = only(run, "compile-failed")
    assert finding.data["stage"] == "backend"
    assert finding.data["backend"] == "refusing"
    assert finding.where.line == line_of(refusing, "raise ValueError")
    assert finding.data["went_on"] is True


def test_one_cause_in_many_frames_is_one_finding(record_here: Record) -> None:
    with record_here() as run:
        for k in range(3):
            with tried():
                torch.compile(lambda x, k=k: x + k, backend=refusing)(ones(3))
    assert only(run, "compile-failed").data["times"] == 3


def test_a_suppressed_failure_is_found_too(record_here: Record) -> None:
    with record_here() as run, torch._dynamo.config.patch(suppress_errors=True):
        torch.compile(lambda x: x + 1, backend=refusing)(ones(3))
    finding = only(run, "compile-failed")
    assert finding.data["suppressed"] is True
    assert finding.cost.results == "same"


def test_a_backend_that_does_not_exist(record_here: Record) -> None:
    with record_here() as run, tried():
        torch.compile(lambda x: x + 1, backend="induktor")
    finding = only(run, "compile-failed")
    assert "induktor" in finding.title
    assert finding.where.file == __file__


@pytest.mark.slow
def test_a_failing_backward_names_the_forwards_line(run_recorded: Callable[..., object]) -> None:
    recorded = run_recorded(
        """
        import torch
        from torch._inductor import lowering

        @torch.library.custom_op("t::forward", mutates_args=())
        def forward(x: torch.Tensor) -> torch.Tensor: return x.clone()
        @forward.register_fake
        def _(x): return torch.empty_like(x)
        @torch.library.custom_op("t::backward", mutates_args=())
        def backward(x: torch.Tensor) -> torch.Tensor: return x.clone()
        @backward.register_fake
        def _(x): return torch.empty_like(x)
        forward.register_autograd(lambda ctx, g: torch.ops.t.backward(g), setup_context=lambda *a, **k: None)
        @lowering.register_lowering(torch.ops.t.backward.default)
        def _(x): raise RuntimeError("no lowering for this")

        def loss(x):
            return torch.ops.t.forward(x).sin().sum()

        try:
            torch.compile(loss)(torch.ones(3, requires_grad=True)).backward()
        except Exception as error:
            print(type(error).__name__)
        """
    )
    [finding] = recorded.found("compile-failed")
    assert finding.data["direction"] == "backward"
    assert finding.data["stage"] == "inductor"
    assert finding.data["op"] == "t.backward.default"
    assert "no lowering for this" in finding.title


def test_an_exception_of_the_programs_own_is_not_a_failed_compile(record_here: Record) -> None:
    function = compiled(lambda x: x + 1)
    with record_here() as run, tried():
        function(ones(3))
        raise ValueError("something else")
    assert alarms(run) == []
