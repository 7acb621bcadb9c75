"""Compiled results beside eager's: what differs, what is equal, and what can't be compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor  # noqa: E402

from compdbg.events import Compared, HookError  # noqa: E402
from compdbg.findings.base import Finding  # noqa: E402
from compdbg.findings.collect import find_all  # noqa: E402
from compdbg.hooks.comparison import NotComparable, Reference  # noqa: E402
from compdbg.model.run import Run  # noqa: E402
from compdbg.views.all import VIEWS  # noqa: E402
from compdbg.views.base import Source  # noqa: E402

pytestmark = pytest.mark.torch


def off_by(amount: float, dtype: Any = None) -> Callable[..., Any]:
    """A backend whose results are wrong by this."""

    def backend(gm: Any, inputs: Any) -> Any:
        return lambda *args: tuple(r + amount if r.is_floating_point() else r for r in gm(*args))

    return backend


@pytest.fixture
def compared(record_here: Any) -> Callable[..., Run]:
    """Compiles `step` with `backend` and calls it with each of `calls`, beside eager."""

    def run(step: Callable[..., Any], backend: Any, *calls: tuple[Any, ...], **options: Any) -> Run:
        with record_here(**{"compare": "eager", **options}) as recording:
            compiled = torch.compile(step, backend=backend, dynamic=True)
            for args in calls:
                compiled(*args)
        loaded: Run = recording.load()
        assert [event for _, event in loaded.log.of(HookError)] == []
        return loaded

    return run


def checks(run: Run) -> list[str]:
    return [event.check for _, event in run.log.of(Compared)]


def found(run: Run) -> list[Finding]:
    return [f for f in find_all(run) if f.severity != "info"]


def affine(x: Tensor) -> Tensor:
    return x * 2 + 1


X = torch.linspace(-1, 1, 6)


def test_results_that_differ(compared: Any) -> None:
    run = compared(affine, off_by(0.5), (X,), (X,))
    (finding,) = found(run)
    assert (finding.code, finding.severity, finding.cost.results) == ("diverges", "error", "wrong")
    assert finding.title == (
        "affine gives other results compiled than in eager: up to 0.5, 0.167 of the largest value"
    )
    assert finding.where is not None
    assert finding.where.line == affine.__code__.co_firstlineno
    assert (finding.data["call"], finding.data["output"]) == (1, 0)


@pytest.mark.parametrize(
    "backend", ["eager", "aot_eager", off_by(1e-6)], ids=["eager", "aot_eager", "rounding"]
)
def test_results_that_are_equal(compared: Any, backend: Any) -> None:
    run = compared(affine, backend, (X,), (X,), (torch.ones(9),))
    assert checks(run) == ["equal", "equal", "equal"]
    assert found(run) == []


def test_right_at_one_size_and_wrong_at_another(compared: Any) -> None:
    def backend(gm: Any, inputs: Any) -> Any:
        return lambda *args: tuple(r + (r.shape[0] > 8) for r in gm(*args))

    run = compared(affine, backend, (X,), (torch.ones(9),))
    assert checks(run) == ["equal", "differs"]
    assert found(run)[0].data["call"] == 2
    assert found(run)[0].data["inputs"] == "float32[9]"


def test_random_numbers_are_not_compared_and_stay_the_programs(compared: Any) -> None:
    drawn: list[Tensor] = []

    def backend(gm: Any, inputs: Any) -> Any:
        def call(*args: Any) -> Any:
            drawn.append(gm(*args)[0])
            return (drawn[-1] + 0.5,)

        return call

    torch.manual_seed(5)
    expected = torch.nn.functional.dropout(torch.ones(64), 0.5)
    torch.manual_seed(5)
    run = compared(lambda x: torch.nn.functional.dropout(x, 0.5), backend, (torch.ones(64),))
    assert checks(run) == ["not-checked"]
    assert "each time" in run.comparisons[0].reason
    assert found(run) == []
    assert torch.equal(drawn[0], expected)


def test_inputs_that_are_written_to_are_written_to_once(compared: Any) -> None:
    def step(x: Tensor, total: Tensor) -> Tensor:
        total.add_(x)
        x[0] = 7
        return total * 2

    total, x = torch.zeros(4), torch.ones(4)
    run = compared(step, "aot_eager", (x, total))
    assert checks(run) == ["equal"]
    assert total.tolist() == [1, 1, 1, 1]
    assert x.tolist() == [7, 1, 1, 1]


def test_written_inputs_that_share_memory_are_not_compared(compared: Any) -> None:
    def step(x: Tensor, y: Tensor) -> Tensor:
        x.add_(1)
        return x + y

    pool = torch.zeros(8)
    run = compared(step, "eager", (pool[:4], pool[2:6]))
    assert checks(run) == ["not-checked"]
    assert "share memory" in run.comparisons[0].reason


def test_nan_on_one_side(compared: Any) -> None:
    run = compared(affine, off_by(float("nan")), (X,))
    assert "NaN or infinity" in found(run)[0].title


@pytest.mark.parametrize(
    ("change", "form"),
    [
        (lambda r: r[1:], "float32[5] in place of float32[6]"),
        (lambda r: r.double(), "float64[6] in place of float32[6]"),
    ],
)
def test_another_shape_or_dtype(compared: Any, change: Any, form: str) -> None:
    def backend(gm: Any, inputs: Any) -> Any:
        return lambda *args: tuple(change(r) for r in gm(*args))

    (finding,) = found(compared(affine, backend, (X,)))
    assert finding.title == f"affine gives other results compiled than in eager: {form}"


def test_a_few_wrong_elements_are_told_where_nothing_compares_or_rounds(compared: Any) -> None:
    """`linear` is no `ne`, and `message_id` names an input: 1 of 8192 elements is wrong by a half."""

    def step(message_id: Tensor) -> Tensor:
        return torch.nn.functional.linear(message_id, torch.eye(64))

    def backend(gm: Any, inputs: Any) -> Any:
        def call(*args: Any) -> Any:
            (result,) = gm(*args)
            result[5, 7] += 0.5
            return (result,)

        return call

    assert checks(compared(step, backend, (torch.linspace(-1, 1, 8192).reshape(128, 64),))) == ["differs"]


@pytest.mark.parametrize(
    "step",
    [
        lambda x: (x.bfloat16() * 3).float(),
        lambda x: (x.to(dtype=torch.bfloat16) * 3).float(),
        lambda x: torch.cat([x.type(torch.bfloat16) * 3]).float(),
    ],
)
def test_results_in_float32_are_no_more_precise_than_what_they_were_worked_out_in(
    compared: Any, step: Any
) -> None:
    assert checks(compared(step, off_by(0.01), (X,))) == ["equal"]
    assert checks(compared(step, off_by(1.0), (X,))) == ["differs"]


@pytest.mark.parametrize(
    ("dtype", "flipped", "check"),
    [
        (torch.float32, 2, "differs"),
        (torch.float16, 2, "equal"),
        (torch.float16, 10, "differs"),
        (torch.bfloat16, 20, "equal"),
        (torch.bfloat16, 30, "differs"),
    ],
)
def test_integers_rounded_from_less_precise_floats_are_more_often_a_step_apart(
    compared: Any, dtype: Any, flipped: int, check: str
) -> None:
    def step(x: Tensor) -> Tensor:
        return torch.round(x.to(dtype)).to(torch.int8)

    def backend(gm: Any, inputs: Any) -> Any:
        def call(*args: Any) -> Any:
            (result,) = gm(*args)
            result[:flipped] += 1
            return (result,)

        return call

    assert checks(compared(step, backend, (torch.linspace(-100, 100, 100),))) == [check]


def test_weights_and_autocast_say_what_is_worked_in_too(compared: Any) -> None:
    weight = torch.eye(6, dtype=torch.bfloat16)
    assert checks(compared(lambda x: x @ weight.float(), off_by(0.01), (X,))) == ["equal"]
    assert checks(compared(lambda x: x @ torch.eye(6), off_by(0.01), (X,))) == ["differs"]
    with torch.autocast("cpu", torch.bfloat16):
        assert checks(compared(lambda x: (x @ torch.eye(6)).float(), off_by(0.01), (X,))) == ["equal"]


def test_what_is_only_called_like_a_collective_is_compared(compared: Any) -> None:
    def step(sender: Tensor) -> Tensor:
        return torch.broadcast_to(sender, (3, 6)) + 1

    assert checks(compared(step, "eager", (X,))) == ["equal"]


def test_a_conversion_to_integers_may_be_a_step_apart(compared: Any) -> None:
    def step(x: Tensor) -> Tensor:
        return (x * 100).to(dtype=torch.int32)

    def backend(gm: Any, inputs: Any) -> Any:
        return lambda *args: (gm(*args[:-1], args[-1] - 1e-7)[0],)

    x = torch.linspace(0, 1, 1001)[2:500:10]
    x[3] = 0.25
    assert checks(compared(step, backend, (x,))) == ["equal"]


def test_a_choice_at_the_edge_is_no_divergence(compared: Any) -> None:
    def step(x: Tensor) -> Tensor:
        return (x > 0.5).float()

    def backend(gm: Any, inputs: Any) -> Any:
        return lambda *args: (
            (gm(args[-1] + 1e-7)[0],) if len(args) == 1 else (gm(*args[:-1], args[-1] + 1e-7)[0],)
        )

    x = torch.linspace(0, 1, 1001)
    x[500] = 0.5
    assert checks(compared(step, backend, (x,))) == ["equal"]


def test_gradients_are_as_without_it(compared: Any) -> None:
    weight = torch.ones(4, requires_grad=True)

    def step(x: Tensor) -> Tensor:
        return (x * weight).sum()

    with_it = compared(lambda x: x.sin(), "aot_eager", (weight,))
    assert checks(with_it) == ["equal"]
    torch.compile(step, backend="aot_eager")(torch.ones(4)).backward()
    assert weight.grad is not None
    assert weight.grad.tolist() == [1, 1, 1, 1]


def test_the_view_and_a_run_that_compared_nothing(compared: Any) -> None:
    run = compared(affine, "eager", (X,))
    view = VIEWS["numerics"](Source(run, []))
    assert [(item.graph, item.check) for item in view.items] == [("0/0", "equal")]  # type: ignore[attr-defined]
    without = compared(affine, off_by(0.5), (X,), compare="")
    assert VIEWS["numerics"](Source(without, [])).items == []
    assert "`compdbg run --compare eager` does" in VIEWS["numerics"](Source(without, [])).empty
    assert found(without) == []


def test_where_it_was_asked_for_and_nothing_compared_the_view_does_not_advise_it(record_here: Any) -> None:
    with record_here(compare="eager") as recording:
        affine(X)
    empty = VIEWS["numerics"](Source(recording.load(), [])).empty
    assert empty.startswith("no call was compared") and "--compare" not in empty


def batch_norm(x: Tensor, mean: Tensor) -> Tensor:
    return torch.nn.functional.batch_norm(x, mean, torch.ones(3), training=True)


def in_place_by_keyword(x: Tensor, mean: Tensor) -> Tensor:
    torch.nn.functional.leaky_relu(mean, 0.5, inplace=True)
    return x + mean


def in_place_by_position(x: Tensor, mean: Tensor) -> Tensor:
    torch.nn.functional.leaky_relu(mean, 0.5, True)
    return x + mean


def renormalised(x: Tensor, mean: Tensor) -> Tensor:
    return torch.nn.functional.embedding(torch.tensor([0]), mean.view(1, 3), max_norm=1.0)


def through_a_view(x: Tensor, mean: Tensor) -> Tensor:
    mean[1:].mul_(2)
    return x + mean


def under_checkpoint(x: Tensor, mean: Tensor) -> Tensor:
    return torch.utils.checkpoint.checkpoint(batch_norm, x, mean, use_reentrant=False)


@pytest.mark.parametrize(
    "step",
    [batch_norm, in_place_by_keyword, in_place_by_position, renormalised, through_a_view, under_checkpoint],
)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_memory_of_the_program_is_written_to_once(compared: Any, step: Any, backend: str) -> None:
    """However an operator comes to write: by a flag, without saying so, through a view."""
    x, start = torch.arange(12.0).reshape(4, 3), torch.tensor([-8.0, -4.0, -2.0])
    expected = start.clone()
    result = step(x, expected)
    torch._dynamo.reset()
    seen = start.clone()
    run = compared(step, backend, (x, seen))
    assert torch.equal(seen, expected)
    assert checks(run) == ["equal"]
    assert not torch.equal(start, expected)
    assert result.shape[-1] == 3


def test_an_undeclared_write_is_done_once(compared: Any) -> None:
    """What the operator does is its own fault; the copies that eager gets are ours to throw away."""

    @torch.library.custom_op("compdbg_compare::counts", mutates_args=())
    def counts(x: Tensor, calls: Tensor) -> Tensor:
        calls += 1
        return x * 2

    counts.register_fake(lambda x, calls: torch.empty_like(x))
    calls = torch.zeros(1)
    run = compared(counts, "eager", (X, calls))
    assert calls.tolist() == [1]
    assert checks(run) == ["equal"]


def test_weights_cast_by_autocast_keep_their_gradients(compared: Any) -> None:
    layer = torch.nn.Linear(6, 6)
    with torch.autocast("cpu", torch.bfloat16):
        run = compared(layer, "eager", (X[None],))
        layer(X[None]).sum().backward()
    assert checks(run) == ["equal"]
    assert layer.weight.grad is not None


def test_a_mode_of_the_programs_sees_no_operator_of_ours() -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Watching(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            raise AssertionError(func)

    reference = Reference(torch.fx.symbolic_trace(affine))
    with Watching(), pytest.raises(NotComparable, match="dispatch mode"):
        reference.results((X,))


def test_gradients_that_a_graph_works_out(compared: Any) -> None:
    def step(x: Tensor) -> Tensor:
        return torch.func.vmap(torch.func.grad(lambda row: row.sin().sum()))(x)

    assert checks(compared(step, "aot_eager", (torch.ones(2, 3),))) == ["equal"]
