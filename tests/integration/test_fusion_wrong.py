"""Replacements that are not like what they replace, and those that are. Nothing is compiled here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch._inductor.pattern_matcher as pm  # noqa: E402
from torch import Tensor  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

from compdbg.events import HookError, ReplacementsChecked, ReplacementWrong  # noqa: E402
from compdbg.model.run import Run  # noqa: E402
from tests.integration.fusion_programs import alarms, findings, graph_of, ops  # noqa: E402

pytestmark = pytest.mark.torch
X, HALF = torch.empty(5, 4), torch.empty(5, 4, dtype=torch.float16)


def decomposed(function: Callable[..., Any], inputs: tuple[Tensor, ...]) -> Any:
    """A function as the ops that patterns are traced to."""
    with FakeTensorMode() as mode:
        return pm.fwd_only(function, [mode.from_tensor(x) for x in inputs])


@pytest.fixture
def replaced(record_here: Any) -> Callable[..., Run]:
    """Replaces `pattern` by `replacement` in the graph of `program`, and records it."""

    def run(
        pattern: Callable[..., Any],
        replacement: Callable[..., Any],
        *inputs: Tensor,
        program: Callable[..., Any] | None = None,
        values: bool = False,
    ) -> Run:
        with record_here(check_replacements=values) as recording:
            made = pm.PatternMatcherPass(pass_name="Fusion")
            pm.register_replacement(pattern, replacement, list(inputs), pm.fwd_only, made)
            matched = made.apply(decomposed(program or pattern, inputs))
        loaded: Run = recording.load()
        assert matched
        assert [event for _, event in loaded.log.of(HookError)] == []
        return loaded

    return run


def faults(run: Run) -> list[tuple[str, str, str]]:
    return [(event.fault, event.wanted, event.found) for _, event in run.log.of(ReplacementWrong)]


def sin_in_float(x: Tensor) -> Tensor:
    return x.float().sin().half()


def test_a_cast_left_out(replaced: Any) -> None:
    run = replaced(sin_in_float, lambda x: x.float().cos(), HALF)
    assert faults(run) == [("dtype", "float16", "float32")]
    (finding,) = findings(run, "fusion-wrong")
    assert (finding.severity, finding.cost.results) == ("error", "wrong")
    assert finding.title == "Fusion (sin_in_float) replaces by something else: dtype float32 for float16"
    assert "cast the result to float16" in finding.suggestion
    assert finding.data["faults"][0]["fault"] == "dtype"


def test_a_cast_that_is_kept(replaced: Any) -> None:
    run = replaced(sin_in_float, lambda x: x.float().cos().half(), HALF)
    assert alarms(run) == []
    assert [event.compared for _, event in run.log.of(ReplacementsChecked)] == [1]


def test_another_shape(replaced: Any) -> None:
    run = replaced(lambda x: x.sin().sum(-1), lambda x: x.sum(-1, keepdim=True), X)
    assert faults(run) == [("shape", "[5]", "[5, 1]")]


def test_other_strides(replaced: Any) -> None:
    run = replaced(lambda x: x.sin().t(), lambda x: x.new_zeros(4, 5).cos(), X)
    assert faults(run) == [("strides", "(1, 4)", "(5, 1)")]


def test_strides_of_a_single_row_reach_nothing(replaced: Any) -> None:
    run = replaced(lambda x: x.sin().t(), lambda x: x.new_zeros(4, 1).cos(), torch.empty(1, 4))
    assert faults(run) == []


def test_each_output_of_several_is_compared(replaced: Any) -> None:
    def pattern(x: Tensor) -> tuple[Tensor, Tensor]:
        y = x.sin()
        return y.cos(), y.sum(-1)

    run = replaced(pattern, lambda x: (x.cos(), x.sum(0)), X)
    assert faults(run) == [("shape", "[5]", "[4]")]


def test_results_of_one_op_that_are_taken_apart(replaced: Any) -> None:
    def pattern(x: Tensor) -> tuple[Tensor, Tensor]:
        y, total = ops.scaled(x, 2.0)
        return y, total

    run = replaced(pattern, lambda x: (x * 2, x.sum(-1)), X)
    assert faults(run) == [("shape", "[]", "[5]")]


def test_twelve_layers_are_one_finding(replaced: Any) -> None:
    def program(x: Tensor) -> Tensor:
        for _ in range(12):
            x = sin_in_float(x)
        return x

    run = replaced(sin_in_float, lambda x: x.float().cos(), HALF, program=program)
    (finding,) = findings(run, "fusion-wrong")
    assert finding.data["regions"] == 12


def test_a_handler_that_copies_the_old_metadata_hides_nothing(record_here: Any) -> None:
    with record_here() as recording:
        made = pm.PatternMatcherPass(pass_name="ByHand")
        sin = pm.CallFunction(torch.ops.aten.sin.default, pm.KeywordArg("x"))
        pattern = pm.CallFunction(torch.ops.aten.sum.dim_IntList, sin, pm.KeywordArg("dims"))

        @pm.register_graph_pattern(pattern, pass_dict=made)
        def fuse(match: Any, x: Any, dims: Any) -> None:
            old = match.output_node()
            new = match.graph.call_function(torch.ops.aten.sum.dim_IntList, (x, dims, True))
            new.meta.update(old.meta)
            old.replace_all_uses_with(new)
            match.erase_nodes()

        assert made.apply(graph_of(lambda x: x.sin().sum(-1).cos(), X)) == 1
    assert faults(recording.load()) == [("shape", "[5]", "[5, 1]")]


def rms(x: Tensor) -> Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


@pytest.mark.parametrize(
    ("pattern", "replacement"),
    [
        (rms, lambda x: x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5)),
        (lambda x, y: (x + y).relu(), lambda x, y: torch.empty_like(x).add(x).relu()),
        (lambda x, y: (x - y).relu(), lambda x, y: (y - x).relu()),
        (lambda x: x.sin().to(torch.int32), lambda x: x.sin().to(torch.int32) + 3),
    ],
    ids=["another epsilon", "uninitialised memory", "inputs swapped", "integers"],
)
def test_other_values(replaced: Any, pattern: Any, replacement: Any) -> None:
    inputs = [torch.empty(5, 4) for _ in range(pattern.__code__.co_argcount)]
    run = replaced(pattern, replacement, *inputs, values=True)
    assert [fault for fault, _, _ in faults(run)] == ["values"]
    (finding,) = findings(run, "fusion-wrong")
    assert ("NaN" in finding.title) == ("empty_like" in replacement.__code__.co_names)
    assert faults(replaced(pattern, replacement, *inputs)) == []  # not without the option


@pytest.mark.parametrize(
    ("pattern", "replacement"),
    [
        (rms, lambda x: x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-6)),
        (lambda x: x.bfloat16().sin() * 3, lambda x: (x.bfloat16().sin().float() * 3).bfloat16() * 1.01),
        (
            lambda x: (x * 127 / 3.0).round().to(torch.int8),
            lambda x: (x * (127 / 3.0)).round().to(torch.int8),
        ),
        (lambda x: (x.log() + 1).sqrt(), lambda x: (1 + x.log()).sqrt()),
    ],
    ids=["another order", "bfloat16", "a step of rounding", "NaN in both"],
)
def test_the_same_values_but_for_rounding(replaced: Any, pattern: Any, replacement: Any) -> None:
    run = replaced(pattern, replacement, torch.empty(64, 8), values=True)
    assert faults(run) == []
    assert [event.values_compared for _, event in run.log.of(ReplacementsChecked)] == [1]


def test_attention_that_could_draw_a_dropout_and_draws_none(replaced: Any) -> None:
    def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return (q @ k.transpose(-2, -1) / 2).softmax(-1) @ v

    def of_the_wrong_keys(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, v, k)[0]

    run = replaced(attention, of_the_wrong_keys, *(torch.empty(1, 2, 4, 4) for _ in range(3)), values=True)
    assert "values" in [fault for fault, _, _ in faults(run)]
    assert [event.values_compared for _, event in run.log.of(ReplacementsChecked)] == [1]


def test_a_pattern_of_torchs_own_is_compared_on_request_and_not_for_strides_or_nan(replaced: Any) -> None:
    def pattern(x: Tensor) -> Tensor:
        return x.sin().log()

    wrong = [
        lambda x: x.sin().log() + 1,
        lambda x: x.t().sin().log().contiguous().t(),
        lambda x: x.sin().log().nan_to_num(),
    ]
    for function in (pattern, *wrong):
        function.__code__ = function.__code__.replace(co_filename=torch.__file__)
    for replacement, wanted in zip(wrong, (["values"], [], []), strict=True):
        run = replaced(pattern, replacement, X, values=True)
        assert [fault for fault, _, _ in faults(run)] == wanted
        assert faults(replaced(pattern, replacement, X)) == []
    (finding,) = findings(replaced(pattern, wrong[0], X, values=True), "fusion-wrong")
    assert "torch's own" in finding.suggestion


def test_what_draws_random_numbers_is_not_run(replaced: Any) -> None:
    run = replaced(lambda x: x.sin() + torch.rand_like(x), lambda x: x + torch.rand_like(x), X, values=True)
    assert faults(run) == []
    assert [event.values_compared for _, event in run.log.of(ReplacementsChecked)] == [0]


def test_a_check_leaves_the_programs_random_numbers_alone(replaced: Any) -> None:
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    replaced(lambda x: x.sin().cos(), lambda x: x.sin().cos() + 0, X, values=True)
    assert torch.equal(torch.rand(2), expected)


def test_a_symbolic_size_counts_as_what_it_was_traced_with(record_here: Any) -> None:
    from torch.fx.experimental.proxy_tensor import make_fx

    def pattern(x: Tensor) -> Tensor:
        return x.sin().cos()

    with record_here() as recording:
        made = pm.PatternMatcherPass(pass_name="Fusion")
        pm.register_replacement(pattern, lambda x: x.cos() + x.shape[0], [X], pm.fwd_only, made)
        graph = make_fx(lambda x: pattern(x) + 1, tracing_mode="symbolic")(torch.ones(7, 4))
        guards = shape_env_of(graph).guards.copy()
        assert made.apply(graph) == 1
    assert faults(recording.load()) == []
    assert shape_env_of(graph).guards == guards


def shape_env_of(graph: Any) -> Any:
    return next(iter(graph.graph.nodes)).meta["val"].fake_mode.shape_env
