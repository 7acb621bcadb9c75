"""Why a pattern did not match: each reason code, with a twin beside it that fires or is no candidate."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch._inductor.pattern_matcher as pm  # noqa: E402
from torch import Tensor  # noqa: E402

from compdbg.model.fusion_rows import FusionRow  # noqa: E402
from tests.integration.fusion_programs import (  # noqa: E402
    W,
    X,
    Y,
    a_pass,
    alarms,
    compiled_with,
    findings,
    graph_of,
    only_row,
    ops,
    rms_pass,
)

pytestmark = pytest.mark.torch
Recorder = Callable[..., AbstractContextManager[Any]]
HALF = torch.float16


@pytest.fixture
def tried(record_here: Recorder) -> Callable[..., FusionRow]:
    """Applies a new pass of one pattern to a function's graph; the one row that this gives."""

    def on(make: Callable[[], pm.PatternMatcherPass], function: Any, *inputs: Any) -> FusionRow:
        with record_here() as run:
            make().apply(graph_of(function, *inputs))
        name = next(r.pass_ for r in run.fusion)
        return only_row(run, name)

    return on


def stopped(row: FusionRow) -> tuple[str, str, str, str]:
    assert row.near_miss is not None, row
    miss = row.near_miss
    return (miss.reason, miss.stage, miss.wanted, miss.found)


class TestTarget:
    def test_a_cast_between(self, tried: Any) -> None:
        row = tried(rms_pass, lambda x, w: ops.rms(x, w, 1e-5).to(torch.float64).round(), X, W)
        assert row.outcome == "missed"
        assert stopped(row) == (
            "target-mismatch", "first", "fusion_tests.rms.default", "aten._to_copy.default",
        )  # fmt: skip
        assert (row.near_miss.matched_nodes, row.near_miss.pattern_nodes) == (1, 2)

    def test_a_view_between(self, tried: Any) -> None:
        row = tried(rms_pass, lambda x, w: ops.rms(x, w, 1e-5).view(4, 5).round(), X, W)
        assert stopped(row)[3] == "aten.view.default"

    def test_operands_in_the_other_order(self, tried: Any) -> None:
        def make() -> Any:
            return a_pass(lambda x, w, y: ops.rms(x, w, 1e-5) + y, [X, W, Y])

        row = tried(make, lambda x, w, y: y + ops.rms(x, w, 1e-5), X, W, Y)
        assert stopped(row) == (
            "target-mismatch", "first", "fusion_tests.rms.default", "graph input y_1",
        )  # fmt: skip
        assert tried(make, lambda x, w, y: ops.rms(x, w, 1e-5) + y, X, W, Y).outcome == "fired"

    def test_nothing_of_the_pattern_near(self, tried: Any) -> None:
        row = tried(rms_pass, lambda x, w: (x.sin() * w).round() + x.abs().round(), X, W)
        assert (row.outcome, row.candidates, row.sites_left, row.near_miss) == ("no-candidate", 2, 0, None)

    def test_the_op_on_another_branch_is_not_near(self, tried: Any) -> None:
        row = tried(rms_pass, lambda x, w: (ops.rms(x, w, 1e-5).sin(), x.abs().round()), X, W)
        assert row.outcome == "no-candidate"

    def test_the_op_after_the_anchor_is_not_near(self, tried: Any) -> None:
        row = tried(rms_pass, lambda x, w: ops.rms(x.round(), w, 1e-5), X, W)
        assert row.outcome == "no-candidate"

    @pytest.mark.parametrize(("between", "outcome"), [(4, "missed"), (5, "no-candidate")])
    def test_near_is_within_four_hops(self, tried: Any, between: int, outcome: str) -> None:
        def chain(x: Tensor, w: Tensor) -> Tensor:
            y = ops.rms(x, w, 1e-5)
            for _ in range(between):
                y = y.sin()
            return y.round()

        assert tried(rms_pass, chain, X, W).outcome == outcome

    def test_a_chain_of_the_anchors_own_op_is_no_site(self, tried: Any) -> None:
        """Any two products in a row look like the end of x * rsqrt(...) * w."""

        def normalised(x: Tensor, w: Tensor) -> Tensor:
            return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * w

        def make() -> Any:
            return a_pass(normalised, [X, W])

        assert tried(make, lambda x, w: x * w * w * x, X, W).outcome == "no-candidate"
        assert tried(make, normalised, X, W).outcome == "fired"


class TestUsers:
    def test_a_second_user_is_named(self, tried: Any) -> None:
        def two(x: Tensor, w: Tensor) -> Any:
            y = ops.rms(x, w, 1e-5)
            return y.round(), y.sin()

        row = tried(rms_pass, two, X, W)
        reason, stage, wanted, found = stopped(row)
        assert (reason, stage) == ("multiple-users", "first")
        assert wanted == "fusion_tests.rms.default with 1 user"
        assert found == "2 users: round_1 (aten.round.default), sin (aten.sin.default)"

    def test_a_value_that_the_graph_returns(self, tried: Any) -> None:
        def returned(x: Tensor, w: Tensor) -> Any:
            y = ops.rms(x, w, 1e-5)
            return y.round(), y

        assert tried(rms_pass, returned, X, W).near_miss.detail == "the graph returns it"

    def test_a_dead_user_counts_and_is_said_to_be_dead(self, record_here: Recorder) -> None:
        graph = graph_of(lambda x, w: (ops.rms(x, w, 1e-5).round(),), X, W)
        norm = next(n for n in graph.graph.nodes if n.target is ops.rms.default)
        with graph.graph.inserting_after(norm):
            graph.graph.call_function(torch.ops.aten.sin.default, (norm,))
        with record_here() as run:
            rms_pass().apply(graph)
        row = only_row(run, "RMSRound")
        assert row.reason == "multiple-users"
        assert row.near_miss.detail == "nothing reads sin_default, but it counts as a user"

    def test_a_pattern_with_two_outputs_wants_both_users(self, tried: Any) -> None:
        def both(x: Tensor, w: Tensor) -> Any:
            y = x * w
            return y.sin(), y.cos()

        def make() -> Any:
            return a_pass(both, [X, W])

        assert stopped(tried(make, lambda x, w: (x * w).sin(), X, W))[2:] == (
            "aten.mul.Tensor with 2 users", "1 user: sin (aten.sin.default)",
        )  # fmt: skip
        assert tried(make, both, X, W).matched == 1

    def test_an_output_that_is_not_among_the_users(self, tried: Any) -> None:
        def both(x: Tensor, w: Tensor) -> Any:
            y = x * w
            return y.sin(), y.cos()

        def other(x: Tensor, w: Tensor) -> Any:
            y = x * w
            return y.sin(), y.tanh()

        row = tried(lambda: a_pass(both, [X, W]), other, X, W)
        assert stopped(row)[2:] == (
            "aten.cos.default among the users of mul", "sin (aten.sin.default), tanh (aten.tanh.default)",
        )  # fmt: skip


class TestArguments:
    def test_a_constant(self, tried: Any) -> None:
        row = tried(rms_pass, lambda x, w: ops.rms(x, w, 1e-6).round(), X, W)
        assert stopped(row) == (
            "arg-mismatch", "second", "eps=1e-05 of fusion_tests.rms.default", "eps=1e-06",
        )  # fmt: skip

    def test_a_dimension(self, tried: Any) -> None:
        row = tried(lambda: a_pass(lambda x: x.sin().sum(0), [X]), lambda x: x.sin().sum(1), X)
        assert stopped(row) == ("arg-mismatch", "second", "dim=0 of aten.sum.dim_IntList", "dim=1")

    @pytest.mark.parametrize("call", [{"variance": 4}, {"eps": 1e-5, "variance": 4}])
    def test_one_more_argument(self, tried: Any, call: dict[str, Any]) -> None:
        """By position or by keyword: dispatch makes them the same."""
        row = tried(rms_pass, lambda x, w: ops.rms(x, w, **({"eps": 1e-5} | call)).round(), X, W)
        assert stopped(row) == (
            "arg-mismatch", "first", "fusion_tests.rms.default with 3 arguments", "4 arguments",
        )  # fmt: skip
        assert row.near_miss.detail == "variance=4 is passed as well"

    def test_one_argument_less(self, tried: Any) -> None:
        def make() -> Any:
            return a_pass(lambda x, w: ops.rms(x, w, 1e-5, 4).round(), [X, W])

        row = tried(make, lambda x, w: ops.rms(x, w, 1e-5).round(), X, W)
        assert row.near_miss.detail == "variance is not passed"

    def test_the_same_argument_by_keyword_fires(self, tried: Any) -> None:
        assert tried(rms_pass, lambda x, w: ops.rms(x, w, eps=1e-5).round(), X, W).outcome == "fired"

    def test_a_keyword_that_the_call_lacks(self, record_here: Recorder) -> None:
        relu, full_like = torch.ops.aten.relu.default, torch.ops.aten.full_like.default
        with record_here() as run:
            made = pm.PatternMatcherPass(pass_name="Fusion")
            pattern = pm.CallFunction(
                relu, pm.CallFunction(full_like, pm.KeywordArg("x"), 1, dtype=torch.float16)
            )
            pm.register_graph_pattern(pattern, pass_dict=made)(lambda match, x: None)
            made.apply(graph_of(lambda x: torch.full_like(x, 1).relu(), X))
        assert only_row(run).reason == "arg-mismatch"

    def test_a_constant_where_the_graph_computes(self, tried: Any) -> None:
        """The first match ignores numbers, but not a value that is computed."""
        row = tried(
            lambda: a_pass(lambda x: torch.add(x.sin(), 2.0).round(), [X]),
            lambda x, y: torch.add(x.sin(), y).round(), X, Y,
        )  # fmt: skip
        assert row.outcome == "missed"


class TestSecondMatch:
    def test_other_dtypes_give_other_ops(self, tried: Any) -> None:
        def make() -> Any:
            return a_pass(lambda x, w: (x * w).to(torch.float32).round(), [X, W])

        row = tried(make, lambda x, w: (x * w).round(), X.to(HALF), W.to(HALF))
        assert stopped(row)[:2] == ("dtype-mismatch", "second")
        assert "convert_element_type" in row.near_miss.detail
        assert tried(make, lambda x, w: (x * w).round(), X, W).outcome == "fired"

    def test_other_shapes_give_other_ops(self, tried: Any) -> None:
        """Four columns of four are all of them, so that the slice is not in the pattern; of eight it is."""
        scale = torch.empty(1)

        def make() -> Any:
            return a_pass(lambda x, w: (x[:, :4] * w).round(), [X, scale])

        row = tried(make, lambda x, w: (x * w).round(), torch.empty(5, 8), scale)
        assert stopped(row) == (
            "shape-mismatch", "second", "aten.slice.Tensor", "graph input x_1",
        )  # fmt: skip
        assert tried(make, lambda x, w: (x * w).round(), torch.empty(7, 4), scale).outcome == "fired"

    def test_a_constant_comes_before_the_dtype(self, tried: Any) -> None:
        def make() -> Any:
            return a_pass(lambda x, w: (ops.rms(x, w, 1e-5) * 2).to(torch.float32).round(), [X, W])

        row = tried(make, lambda x, w: (ops.rms(x, w, 1e-6) * 2).round(), X, W)
        assert stopped(row)[::3] == ("arg-mismatch", "eps=1e-06")

    def test_tracing_that_fails(self, tried: Any) -> None:
        def fussy(x: Tensor, w: Tensor) -> Tensor:
            if x.shape[0] == 7:
                raise RuntimeError("seven rows")
            return (x * w).round()

        row = tried(lambda: a_pass(fussy, [X, W]), lambda x, w: (x * w).round(), torch.empty(7, 4), W)
        assert row.reason == "retrace-mismatch"
        assert row.near_miss.detail == "RuntimeError: seven rows"
        assert row.outcome == "missed"


class TestOneNameTwice:
    def test_two_nodes_for_one_argument(self, tried: Any) -> None:
        def make() -> Any:
            return a_pass(lambda x, w: (x * w).relu() + x, [X, W])

        row = tried(make, lambda x, w, z: (x * w).relu() + z, X, W, Y)
        assert stopped(row) == (
            "kwarg-mismatch", "first", "x is x_1 (graph input x_1) again", "z_1 (graph input z_1)",
        )  # fmt: skip
        assert tried(make, lambda x, w: (x * w).relu() + x, X, W).outcome == "fired"


class TestChecks:
    def test_the_check_is_named(self, tried: Any) -> None:
        def no_seven_rows(match: pm.Match) -> bool:
            return match.kwargs["x"].meta["val"].shape[0] != 7

        def make() -> Any:
            return rms_pass(extra_check=no_seven_rows)

        row = tried(make, lambda x, w: ops.rms(x, w, 1e-5).round(), torch.empty(7, 4), W)
        assert row.outcome == "missed"
        reason, stage, wanted, found = stopped(row)
        assert (reason, stage, found) == ("extra-check", "check", "it refused")
        assert "no_seven_rows to accept the match" in wanted
        assert row.near_miss.matched_nodes == row.near_miss.pattern_nodes == 2
        assert tried(make, lambda x, w: ops.rms(x, w, 1e-5).round(), X, W).outcome == "fired"

    def test_a_lambda_is_named_by_its_line(self, tried: Any) -> None:
        row = tried(
            lambda: rms_pass(extra_check=lambda match: False),
            lambda x, w: ops.rms(x, w, 1e-5).round(), X, W,
        )  # fmt: skip
        assert "lambda to accept the match" in row.near_miss.wanted
        assert row.near_miss.detail.startswith("test_fusion_reasons.py:")

    def test_a_check_of_a_graph_pattern(self, record_here: Recorder) -> None:
        aten = torch.ops.aten
        with record_here() as run:
            made = pm.PatternMatcherPass(pass_name="Fusion")
            pattern = pm.CallFunction(aten.relu.default, pm.CallFunction(aten.sin.default, pm.Arg()))
            seen = []
            pm.register_graph_pattern(pattern, extra_check=lambda m: False, pass_dict=made)(
                lambda match, *args: seen.append(match)
            )
            made.apply(graph_of(lambda x: x.sin().relu(), X))
        assert only_row(run).reason == "extra-check"
        assert not seen

    def test_a_check_that_answers_with_a_symbol(self, record_here: Recorder) -> None:
        """torch decides it, by `guard_or_false`; asking ourselves would add a guard."""
        from torch.fx.experimental.proxy_tensor import make_fx

        aten = torch.ops.aten
        graph = make_fx(lambda x: x.sin().relu(), tracing_mode="symbolic")(torch.empty(5, 4))
        rows = next(n for n in graph.graph.nodes if n.target is aten.relu.default).meta["val"].shape[0]
        with record_here() as run:
            made = pm.PatternMatcherPass(pass_name="Fusion")
            pattern = pm.CallFunction(aten.relu.default, pm.CallFunction(aten.sin.default, pm.Arg()))
            pm.register_graph_pattern(pattern, extra_check=lambda m: rows == 7, pass_dict=made)(
                lambda match, *args: None
            )
            made.apply(graph)
        assert only_row(run).reason == "extra-check"
        assert len(rows.node.shape_env.guards) == 1, "torch's own, and none of ours"


class TestDiscards:
    def test_a_mutation_between(self, tried: Any) -> None:
        def between(x: Tensor, w: Tensor, z: Tensor) -> Tensor:
            y = ops.rms(x, w, 1e-5)
            z.add_(1)
            return y.round()

        row = tried(rms_pass, between, X, W, torch.empty(5, 4))
        assert stopped(row)[:2] == ("mutation-region", "discard")
        assert row.near_miss.found == "add_ (aten.add_.Tensor)"

    def test_a_mutation_before_is_harmless(self, tried: Any) -> None:
        def before(x: Tensor, w: Tensor, z: Tensor) -> Tensor:
            z.add_(1)
            return ops.rms(x, w, 1e-5).round()

        assert tried(rms_pass, before, X, W, torch.empty(5, 4)).outcome == "fired"

    @pytest.mark.skipif(
        "stream" not in inspect.getsource(pm), reason="this torch's matcher knows of no streams"
    )
    def test_two_streams(self, record_here: Recorder) -> None:
        graph = graph_of(lambda x, w: ops.rms(x, w, 1e-5).round(), X, W)
        next(n for n in graph.graph.nodes if "round" in n.name).meta["custom"] = {"stream": 1}
        with record_here() as run:
            rms_pass().apply(graph)
        row = only_row(run, "RMSRound")
        assert row.reason == "stream-boundary"
        assert row.near_miss.found == "rms on stream 0, round_1 on stream 1"

    @pytest.mark.filterwarnings("ignore:Torchinductor does not support code generation")
    def test_a_dtype_that_inductor_skips(self, tried: Any) -> None:
        def make() -> Any:
            return a_pass(lambda x, w: torch.abs(x * w), [X, W])

        complex_x = torch.empty(5, 4, dtype=torch.complex64)
        row = tried(make, lambda x, w: torch.abs(x * w), complex_x, complex_x)
        assert row.reason == "unsupported-dtype"
        assert "torch.complex64" in row.near_miss.found
        assert row.attempted == 0


class TestOther:
    def test_a_list_argument(self, record_here: Recorder) -> None:
        aten = torch.ops.aten
        with record_here() as run:
            made = pm.PatternMatcherPass(pass_name="Fusion")
            pattern = pm.CallFunction(
                aten.relu.default,
                pm.CallFunction(aten.cat.default, pm.ListOf(pm.CallFunction(aten.sin.default, pm.Arg())), 1),
            )
            pm.register_graph_pattern(pattern, pass_dict=made)(lambda match, *args: None)
            made.apply(graph_of(lambda x, y: torch.cat([x.sin(), y.cos()], 1).relu(), X, Y))
        assert stopped(only_row(run))[::3] == ("target-mismatch", "aten.cos.default")

    def test_a_pattern_class_of_the_users_own(self, record_here: Recorder) -> None:
        class Even(pm.PatternExpr):
            def _match(self, node: Any, ctx: Any) -> Any:
                return pm.FailedMatch("odd number of rows")

        aten = torch.ops.aten
        with record_here() as run:
            made = pm.PatternMatcherPass(pass_name="Fusion")
            pattern = pm.CallFunction(aten.relu.default, pm.CallFunction(aten.sin.default, Even()))
            pm.register_graph_pattern(pattern, pass_dict=made)(lambda match, *args: None)
            made.apply(graph_of(lambda x: x.sin().relu(), X))
        row = only_row(run)
        assert (row.reason, row.near_miss.detail) == ("other", "odd number of rows")


def test_what_is_found_is_the_users_line(record_here: Recorder) -> None:
    def step(x: Tensor, w: Tensor) -> Tensor:
        normal = ops.rms(x, w, 1e-6)
        return normal.round()

    with record_here() as run:
        compiled_with(step, torch.randn(5, 4), torch.randn(4), passes=[rms_pass().apply])
    (finding,) = findings(run, "fusion-missed")
    assert finding.where is not None
    assert (finding.where.function, finding.where.line) == ("step", step.__code__.co_firstlineno + 1)
    assert finding.data["reason"] == "arg-mismatch"
    assert finding.data["sites"] == 1
    assert alarms(run) == ["fusion-missed"]
