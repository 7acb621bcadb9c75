"""Custom operators that do other than they say, under `check_ops`, and their look-alikes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from compdbg.events import HookError, OpsChecked, OpWrong
from compdbg.findings.base import Finding
from compdbg.findings.collect import find_all
from compdbg.model.run import Run

pytestmark = pytest.mark.torch
X = torch.ones(4, 6)


@pytest.fixture
def library() -> Iterator[Any]:
    """A namespace of ops that goes away with the test."""
    made = torch.library.Library("checked", "FRAGMENT")
    yield made
    made._destroy()


@pytest.fixture
def checked(record_here: Any) -> Callable[..., Run]:
    """Records `program` with ops checked."""

    def run(program: Callable[[], Any], **options: Any) -> Run:
        with record_here(**{"check_ops": True, **options}) as recording:
            program()
        loaded: Run = recording.load()
        assert [event for _, event in loaded.log.of(HookError)] == []
        return loaded

    return run


def faults(run: Run) -> list[tuple[str, str]]:
    return [(event.fault, event.subject) for _, event in run.log.of(OpWrong)]


def found(run: Run) -> list[Finding]:
    return [f for f in find_all(run) if f.severity != "info"]


def compiled(op: Callable[..., Any], *calls: tuple[Any, ...]) -> Callable[[], None]:
    """A program that calls `op` in compiled code, once with each of `calls`."""

    def program() -> None:
        step = torch.compile(op, backend="eager", dynamic=True)
        for args in calls:
            step(*args)

    return program


def defined(library: Any, schema: str, kernel: Callable[..., Any], fake: Callable[..., Any]) -> Any:
    """`checked::op`, registered within what is being recorded."""
    library.define(f"op{schema}")
    library.impl("op", kernel, "CPU")
    library.impl("op", fake, "Meta")
    return torch.ops.checked.op


def write_second(x: Tensor, y: Tensor) -> Tensor:
    y.add_(1)
    return x + y


def like(x: Tensor, *_: Any) -> Tensor:
    return torch.empty_like(x)


PAIR = "(Tensor x, Tensor y) -> Tensor"


def test_an_undeclared_write_is_found_once_however_often_it_happens(library: Any, checked: Any) -> None:
    def program() -> None:
        op = defined(library, PAIR, write_second, like)
        compiled(op, *[(X, torch.zeros(4, 6)) for _ in range(4)])()

    run = checked(program)
    assert faults(run) == [("undeclared-write", "y")]
    (finding,) = found(run)
    assert (finding.code, finding.severity) == ("op-schema-wrong", "error")
    assert finding.title == "checked::op writes to `y`, and does not say so"
    assert finding.where is not None
    assert finding.where.line == write_second.__code__.co_firstlineno
    assert finding.data["faults"][0]["call"] == 1


def test_a_declared_write_is_none(library: Any, checked: Any) -> None:
    schema = "(Tensor x, Tensor(a!) y) -> Tensor"

    def program() -> None:
        op = defined(library, schema, write_second, like)
        compiled(op, (X, torch.zeros(4, 6)))()

    run = checked(program)
    assert found(run) == []
    assert [event.checked for _, event in run.log.of(OpsChecked)] == [{"checked::op": 1}]


def test_memory_that_a_declared_argument_shares_may_change(library: Any, checked: Any) -> None:
    def kernel(page: Tensor, pool: Tensor) -> None:
        page.fill_(3)

    def program() -> None:
        op = defined(library, "(Tensor(a!) page, Tensor pool) -> ()", kernel, lambda page, pool: None)
        pool = torch.zeros(3, 4)
        op(pool[1], pool)

    assert found(checked(program)) == []


def test_a_write_that_restores_what_was_there_and_a_nan_are_none(library: Any, checked: Any) -> None:
    def kernel(x: Tensor, y: Tensor) -> Tensor:
        y.neg_().neg_()
        return x + y

    def program() -> None:
        op = defined(library, PAIR, kernel, like)
        op(X, torch.full((4, 6), float("nan")))

    assert found(checked(program)) == []


def test_one_tensor_of_a_list_is_named(library: Any, checked: Any) -> None:
    def kernel(x: Tensor, pages: list[Tensor]) -> Tensor:
        pages[1].copy_(x)
        return x + 1

    def program() -> None:
        op = defined(library, "(Tensor x, Tensor[] pages) -> Tensor", kernel, like)
        op(X, [torch.zeros(4, 6), torch.zeros(4, 6)])

    run = checked(program)
    assert faults(run) == [("undeclared-write", "pages[1]")]
    assert "mutates_args=('pages',)" in found(run)[0].suggestion


@pytest.mark.parametrize(
    ("fake", "fault"),
    [
        (lambda x, y: torch.empty_like(x, dtype=torch.float64), ("dtype", "the result")),
        (lambda x, y: x.new_empty(4, 5), ("shape", "the result")),
        (lambda x, y: x.new_empty(6, 4).t(), ("strides", "the result")),
        (lambda x, y: x, ("aliasing", "the result")),
    ],
    ids=["dtype", "shape", "strides", "aliasing"],
)
def test_a_fake_that_is_not_like_the_op(
    library: Any, checked: Any, fake: Callable[..., Any], fault: tuple[str, str]
) -> None:
    def program() -> None:
        torch.compile(lambda x: x + 1, backend="eager")(X)  # what fakes run in is there
        op = defined(library, PAIR, lambda x, y: x + y, fake)
        op(X, X)

    run = checked(program)
    assert faults(run) == [fault]
    (finding,) = found(run)
    assert finding.data["of"] == "fake"
    assert finding.cost.results == "wrong"


def test_two_faults_of_a_fake_are_one_finding(library: Any, checked: Any) -> None:
    def program() -> None:
        op = defined(library, PAIR, lambda x, y: x + y, lambda x, y: x.new_empty(4, 5, dtype=torch.int32))
        op(X, X)

    run = checked(program)
    assert faults(run) == [("dtype", "the result"), ("shape", "the result")]
    assert len(found(run)) == 1


def test_strides_of_single_elements_and_of_nothing_do_not_matter(library: Any, checked: Any) -> None:
    def kernel(x: Tensor) -> tuple[Tensor, Tensor]:
        return torch.empty_strided((1, 4), (77, 1)), torch.empty_strided((0, 4), (3, 9))

    def fake(x: Tensor) -> tuple[Tensor, Tensor]:
        return x.new_empty(1, 4), x.new_empty(0, 4)

    def program() -> None:
        defined(library, "(Tensor x) -> (Tensor, Tensor)", kernel, fake)(X)

    assert found(checked(program)) == []


def test_a_size_that_the_fake_leaves_open_is_right_with_any(library: Any, checked: Any) -> None:
    def fake(x: Tensor) -> Tensor:
        return x.new_empty(torch.library.get_ctx().new_dynamic_size())

    def program() -> None:
        library.define("op(Tensor x) -> Tensor")
        library.impl("op", lambda x: x[x > 0], "CPU")
        torch.library.register_fake("checked::op", fake, lib=library)
        torch.ops.checked.op(X)

    run = checked(program)
    assert found(run) == []
    assert [event.faked for _, event in run.log.of(OpsChecked)] == [{"checked::op": 1}]


def test_a_view_returned_at_one_size_only(library: Any, checked: Any) -> None:
    def kernel(x: Tensor) -> Tensor:
        return x if x.shape[0] % 4 == 0 else torch.cat([x, x])

    def program() -> None:
        op = defined(library, "(Tensor x) -> Tensor", kernel, torch.empty_like)
        op(torch.ones(4))

    run = checked(program)
    assert faults(run) == [("undeclared-alias", "x")]
    assert ".clone()" in found(run)[0].suggestion


def test_an_op_without_a_fake_is_checked_for_writes_only(library: Any, checked: Any) -> None:
    def program() -> None:
        library.define(f"op{PAIR}")
        library.impl("op", write_second, "CPU")
        torch.ops.checked.op(X, torch.zeros(4, 6))

    assert faults(checked(program)) == [("undeclared-write", "y")]


def test_a_fake_that_raises_is_for_the_compile_to_say(library: Any, checked: Any, caplog: Any) -> None:
    def fake(x: Tensor, y: Tensor) -> Tensor:
        raise ValueError("not these")

    def program() -> None:
        defined(library, PAIR, lambda x, y: x + y, fake)(X, X)

    assert faults(checked(program)) == []
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


def test_custom_ops_defined_before_are_watched_and_given_back(checked: Any) -> None:
    @torch.library.custom_op("checked::earlier", mutates_args=())
    def earlier(x: Tensor, y: Tensor) -> Tensor:
        y.add_(1)
        return x + y

    kernel = earlier._backend_fns[None]
    run = checked(lambda: earlier(X, torch.zeros(4, 6)))
    assert faults(run) == [("undeclared-write", "y")]
    assert earlier._backend_fns[None] is kernel


def test_results_state_and_random_numbers_are_as_without_it(library: Any, checked: Any) -> None:
    calls: list[int] = []

    def kernel(x: Tensor, y: Tensor) -> Tensor:
        calls.append(1)
        return x + torch.rand_like(y)

    def program() -> None:
        op = defined(library, PAIR, kernel, like)
        torch.manual_seed(7)
        results.append([op(X, X).sum().item() for _ in range(3)])

    results: list[list[float]] = []
    checked(program)
    assert len(calls) == 3
    torch.manual_seed(7)
    assert results == [[(X + torch.rand_like(X)).sum().item() for _ in range(3)]]


def test_without_the_option_nothing_is_watched(library: Any, checked: Any) -> None:
    def program() -> None:
        defined(library, PAIR, write_second, like)(X, torch.zeros(4, 6))

    run = checked(program, check_ops=False)
    assert run.log.of(OpsChecked) == []
    assert found(run) == []


@pytest.mark.parametrize("calls_it", [True, False], ids=["of its graph", "of another graph"])
def test_results_that_differ_follow_from_an_op_of_the_same_graph(checked: Any, calls_it: bool) -> None:
    @torch.library.custom_op("compdbg_ops::scaled", mutates_args=())
    def scaled(x: Tensor, calls: Tensor) -> Tensor:
        calls += 1
        return x * 2

    scaled.register_fake(lambda x, calls: torch.empty_like(x))

    def off_by_one(gm: Any, inputs: Any) -> Any:
        return lambda *args: tuple(result + 1 for result in gm(*args))

    def program() -> None:
        calls = torch.zeros(1)
        torch.compile(lambda x: scaled(x, calls) + 1, backend=off_by_one if calls_it else "eager")(X)
        torch.compile(lambda x: x.sin(), backend="eager" if calls_it else off_by_one)(X)
        assert calls.tolist() == [1]

    run = checked(program, compare="eager")
    op, *others = sorted(found(run), key=lambda f: f.code != "op-schema-wrong")
    assert [event.call for _, event in run.log.of(OpWrong)] == [1]
    differing = [each.event for each in run.comparisons if each.check == "differs"]
    assert len(differing) == 1
    assert (differing[0] in op.evidence) is calls_it
    assert [f.code for f in others] == ([] if calls_it else ["diverges"])
