"""Patterns that are broken in themselves, and their twins that are not."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch._inductor.config as inductor  # noqa: E402
import torch._inductor.pattern_matcher as pm  # noqa: E402
from torch import Tensor  # noqa: E402

from tests.integration.fusion_programs import (  # noqa: E402
    W,
    X,
    Y,
    a_pass,
    alarms,
    findings,
    graph_of,
    only_row,
    ops,
    rms_pass,
    rms_round,
)

pytestmark = pytest.mark.torch
Recorder = Callable[..., AbstractContextManager[Any]]
SQUARE = torch.empty(4, 4)


def view_pattern(x: Tensor, y: Tensor) -> Tensor:
    return torch.ops.aten.view.default(torch.mm(x, y), [-1, 2, 2]).relu()


def reshape_pattern(x: Tensor, y: Tensor) -> Tensor:
    return torch.mm(x, y).relu()


def as_post_grad(made: pm.PatternMatcherPass, gm: Any) -> Any:
    """Apply as Inductor does after it has turned `view` into `reshape`."""
    from torch._inductor.fx_passes.post_grad import view_to_reshape

    view_to_reshape(gm)
    names: dict[str, Any] = {"made": made}
    source = "def post_grad_passes(gm): return made.apply(gm)"
    exec(compile(source, f"{torch.__path__[0]}/_inductor/fx_passes/post_grad.py", "exec"), names)
    return names["post_grad_passes"](gm)


class TestSelfMatch:
    def test_view_where_the_stage_has_reshape(self, record_here: Recorder) -> None:
        with record_here() as run:
            as_post_grad(a_pass(view_pattern, [X, SQUARE]), graph_of(view_pattern, X, SQUARE))
        (finding,) = findings(run, "pattern-unmatchable")
        assert finding.data == {"pass": "Fusion", "pattern": "view_pattern", "problem": "no-self-match"}
        assert finding.where is not None and finding.where.function == "view_pattern"
        assert "it wants aten.view.default where its own graph has aten.reshape.default" in finding.title
        assert alarms(run) == ["pattern-unmatchable"], "the miss that follows is no finding of its own"

    def test_view_is_right_before_that_stage(self, record_here: Recorder) -> None:
        with record_here() as run:
            a_pass(view_pattern, [X, SQUARE]).apply(graph_of(view_pattern, X, SQUARE))
        assert only_row(run).outcome == "fired"
        assert alarms(run) == ["fusion-wrong"]  # what it is replaced by has another shape

    def test_no_view_no_problem(self, record_here: Recorder) -> None:
        with record_here() as run:
            as_post_grad(a_pass(reshape_pattern, [X, SQUARE]), graph_of(reshape_pattern, X, SQUARE))
        assert only_row(run).outcome == "fired"
        assert not alarms(run)

    def test_another_pattern_of_the_pass_may_still_miss(self, record_here: Recorder) -> None:
        """The broken pattern explains its own misses only."""
        with record_here() as run:
            made = rms_pass("Both")
            made2 = a_pass(view_pattern, [X, SQUARE], "Broken")
            graph = graph_of(lambda x, w, s: (ops.rms(x, w, 1e-6).round(), view_pattern(x, s)), X, W, SQUARE)
            as_post_grad(made, graph)
            as_post_grad(made2, graph)
        assert sorted(alarms(run)) == ["fusion-missed", "pattern-unmatchable"]

    def test_a_pass_that_is_never_applied_is_not_judged(self, record_here: Recorder) -> None:
        with record_here() as run:
            a_pass(view_pattern, [X, SQUARE])
        assert not alarms(run)


class TestOutputs:
    def test_an_output_that_shares_nothing_with_the_anchor(self, record_here: Recorder) -> None:
        def apart(x: Tensor, y: Tensor) -> Any:
            return x.sin(), y.cos()

        with record_here() as run:
            a_pass(apart, [X, Y]).apply(graph_of(apart, X, Y))
        (finding,) = findings(run, "pattern-unmatchable")
        assert finding.data["problem"] == "unreachable-output"
        assert "aten.cos.default" in finding.title
        assert alarms(run) == ["pattern-unmatchable"]

    @pytest.mark.parametrize("shared", ["input", "op"])
    def test_outputs_that_share_an_input_or_an_op(self, record_here: Recorder, shared: str) -> None:
        def by_input(x: Tensor, w: Tensor) -> Any:
            return x.sin(), (x * w).cos()

        def by_op(x: Tensor, w: Tensor) -> Any:
            y = x * w
            return y.sin(), y.cos()

        pattern = by_input if shared == "input" else by_op
        with record_here() as run:
            a_pass(pattern, [X, W]).apply(graph_of(pattern, X, W))
        assert only_row(run).outcome == "fired"
        assert not alarms(run)


class TestLostNodes:
    def test_an_effect_that_no_output_depends_on(self, record_here: Recorder) -> None:
        def writes(x: Tensor, k: Tensor) -> Tensor:
            ops.bump(k)
            return x.sin().relu()

        with record_here() as run:
            a_pass(lambda x, k: writes(x.exp(), k * 1), [X, W], "Writes").apply(
                graph_of(lambda x: x.sin(), X)
            )
        (finding,) = findings(run, "pattern-unmatchable")
        assert finding.data["problem"] == "lost-nodes"
        assert "fusion_tests.bump.default" in finding.title

    def test_a_dead_computation(self, record_here: Recorder) -> None:
        def dead(x: Tensor, w: Tensor) -> Tensor:
            x.sin()
            return (x * w).relu()

        with record_here() as run:
            a_pass(dead, [X, W]).apply(graph_of(lambda x, w: (x * w).relu(), X, W))
        (finding,) = findings(run, "pattern-unmatchable")
        assert "no output depends on aten.sin.default" in finding.title

    def test_a_dead_op_of_what_is_returned(self, record_here: Recorder) -> None:
        """A scale that a pattern computes from its result, and does not return."""

        def dead(x: Tensor, w: Tensor) -> Tensor:
            y = x * w
            y.abs().amax()
            return y.relu()

        with record_here() as run:
            a_pass(dead, [X, W]).apply(graph_of(lambda x, w: (x * w).relu(), X, W))
        (finding,) = findings(run, "pattern-unmatchable")
        assert "no output depends on aten.abs.default, aten.amax.default" in finding.title

    def test_a_dead_custom_op(self, record_here: Recorder) -> None:
        def dead(x: Tensor, w: Tensor) -> Tensor:
            y = x * w
            ops.rms(y, w, 1e-5)
            return y.relu()

        with record_here() as run:
            a_pass(dead, [X, W]).apply(graph_of(lambda x, w: (x * w).relu(), X, W))
        assert findings(run, "pattern-unmatchable")[0].data["problem"] == "lost-nodes"

    @pytest.mark.parametrize(
        "pattern",
        [
            lambda x: x.split(2)[0].sin().relu(),
            lambda x: torch.nn.functional.layer_norm(x, (4,)).relu(),
            lambda x: torch.nn.functional.silu(x.chunk(2, -1)[0]) * x.chunk(2, -1)[1],
            lambda x: torch.softmax(x, -1).relu(),
            lambda x: torch.var_mean(x, -1)[0].relu(),
            lambda x: torch.max(x, -1)[0].relu(),
            lambda x: torch.nn.functional.batch_norm(x.abs(), None, None, training=True).relu(),
        ],
        ids=["split", "layer-norm", "chunk", "softmax", "var-mean", "max", "batch-norm"],
    )
    def test_what_a_decomposition_leaves_over_is_not_lost(self, record_here: Recorder, pattern: Any) -> None:
        with record_here() as run:
            a_pass(pattern, [X]).apply(graph_of(pattern, X))
        assert not findings(run, "pattern-unmatchable")


def test_torchs_own_patterns_are_not_judged(record_here: Recorder) -> None:
    with inductor.patch(fallback_random=False), record_here() as run:
        from torch._inductor.fx_passes.joint_graph import pass_patterns

        for own in pass_patterns:
            own.apply(graph_of(rms_round, X, W))
    assert not alarms(run)
