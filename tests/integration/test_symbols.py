"""Dimensions asked to be dynamic: which became numbers, at which line, and when that is no fault."""

from __future__ import annotations

import pytest
import torch
from torch._dynamo import mark_dynamic, maybe_mark_dynamic
from torch._dynamo.decorators import mark_unbacked

from tests.integration.frames_here import Record, compiled, findings, line_of, ones, only, tried

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

TABLE = torch.arange(8.0)[:, None]


def marked(n: int, how=mark_dynamic, **options):
    x = ones(n, 4)
    how(x, 0, **options)
    return x


def adds_table(x):
    y = x * 2
    return y + TABLE


def compares(x):
    if x.shape[0] == 8:
        return x * 2
    return x


def loops(x):
    for i in range(x.shape[0]):
        x = x + i
    return x


def reshapes(x):
    return x.view(2, 4, 4)


@pytest.mark.parametrize(
    ("function", "text"),
    [(adds_table, "y + TABLE"), (compares, "== 8"), (loops, "range("), (reshapes, "view(2")],
)
@pytest.mark.parametrize(("how", "severity"), [(mark_dynamic, "error"), (maybe_mark_dynamic, "warning")])
def test_the_line_that_fixes_it(record_here: Record, function, text: str, how, severity: str) -> None:
    with record_here() as run, tried():
        compiled(function)(marked(8, how))
    finding = only(run, "dim-specialised")
    assert finding.severity == severity
    assert finding.where.line == line_of(function, text)
    assert finding.data["value"] == 8
    assert finding.data["dimensions"] == ["x.size(0)"]
    assert finding.data["constraint_violated"] is (severity == "error")


def test_the_other_operand_is_named(record_here: Record) -> None:
    with record_here() as run, tried():
        compiled(adds_table)(marked(8))
    finding = only(run, "dim-specialised")
    assert finding.data["op"] == "aten.add.Tensor"
    assert "TABLE (8, 1)" in finding.title
    assert "TABLE[: x.size(0)]" in finding.suggestion


def test_two_inputs_of_which_one_is_marked(record_here: Record) -> None:
    with record_here() as run, tried():
        compiled(lambda x, y: x + y)(marked(8), ones(8, 4))
    assert "y (8, 4)" in only(run, "dim-specialised").title


def test_an_unbacked_dimension_that_silently_becomes_a_number(record_here: Record) -> None:
    x = ones(5, 5)
    mark_unbacked(x, 0)
    with record_here() as run:
        compiled(lambda x: torch.cat([x, ones(5, 5)], 1), fullgraph=True)(x)
    finding = only(run, "dim-specialised")
    assert finding.severity == "warning"
    assert finding.data["asked"] == "mark_unbacked"


def test_a_range_that_the_code_does_not_keep(record_here: Record) -> None:
    def branch(x):
        if x.shape[0] > 4:
            return x * 2
        return x

    with record_here() as run, tried():
        compiled(branch)(marked(8, min=2, max=16))
    finding = only(run, "dim-specialised")
    assert finding.severity == "error"
    assert finding.data["constraint_violated"] is True


def test_a_mark_on_a_parameter_is_ignored(record_here: Record) -> None:
    weight = torch.nn.Parameter(ones(4, 4))
    mark_dynamic(weight, 0)
    with record_here() as run:
        compiled(lambda x: x + weight)(ones(4))
    assert "parameters" in only(run, "dim-specialised").title


class TestZeroOne:
    def test_the_first_batch_has_one_row(self, record_here: Record) -> None:
        with record_here() as run:
            mean = compiled(lambda x: x.sum(0) / x.shape[0], dynamic=True)
            for n in (1, 5):
                mean(ones(n, 4))
        finding = only(run, "dim-specialised")
        assert finding.severity == "warning"
        assert finding.data["zero_one"] is True

    def test_a_marked_dimension_of_one(self, record_here: Record) -> None:
        with record_here() as run:
            compiled(lambda x: x + 1)(marked(1))
        assert only(run, "dim-specialised").data["zero_one"] is True

    def test_one_that_never_grows_is_no_alarm(self, record_here: Record) -> None:
        with record_here() as run:
            mean = compiled(lambda x: x.sum(0) / x.shape[0], dynamic=True)
            mean(ones(1, 4))
            mean(ones(1, 4))
        assert findings(run) == []

    def test_one_that_comes_after_others_is_no_alarm(self, record_here: Record) -> None:
        with record_here() as run:
            function = compiled(lambda x: x + 1)
            for n in (5, 1, 7):
                function(marked(n))
            everything = compiled(lambda x: x - 1, dynamic=True)
            for n in (5, 1, 7):
                everything(ones(n, 4))
        assert findings(run) == []


class TestDynamicTrue:
    def test_a_size_that_weights_fix_and_no_call_changes_is_no_alarm(self, record_here: Record) -> None:
        with record_here() as run:
            function = compiled(torch.nn.Linear(4, 4), dynamic=True)
            for n in (3, 5, 9):
                function(ones(n, 4))
        assert findings(run) == []

    def test_one_that_calls_change_is_the_cause_of_the_recompiles(self, record_here: Record) -> None:
        with record_here() as run:
            function = compiled(loops, dynamic=True)
            for n in (4, 5, 6):
                function(ones(n, 3))
        finding = only(run, "dim-specialised")
        assert finding.data["asked"] == "dynamic=True"
        assert finding.where.line == line_of(loops, "range(")


def test_what_stays_dynamic_is_clean(record_here: Record) -> None:
    with record_here() as run:
        function = compiled(lambda x, y: x * 2 + y)
        for n in (5, 3, 9):
            function(marked(n), marked(n))
    dimensions = run.load().dimensions
    assert findings(run) == []
    assert {(d.name, d.asked, d.became) for d in dimensions} == {
        ("x.size(0)", "mark_dynamic", "dynamic"),
        ("y.size(0)", "mark_dynamic", "dynamic"),
    }


def test_sizes_that_torch_marks_in_a_nested_tensor(record_here: Record) -> None:
    nested = torch.nested.nested_tensor([ones(2, 3), ones(1, 3)], layout=torch.jagged)
    with record_here() as run:
        compiled(lambda x: x * 2, backend="aot_eager")(nested)
    assert "dim-specialised" not in [finding.code for finding in findings(run)]
