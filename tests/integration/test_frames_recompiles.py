"""Recompiles: what is normal, what is not, what varies, and the call from which all is eager."""

from __future__ import annotations

from pathlib import PurePath

import pytest
import torch

from compdbg.views.base import Source
from compdbg.views.frames import frames
from tests.integration.frames_here import Record, alarms, compiled, findings, line_of, ones, only, tried

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


def double(x):
    return x * 2


def scale(x, k):
    return x * k


class TestNormal:
    """What automatic dynamism and a few variants explain is no alarm."""

    def test_sizes_then_zero_and_one(self, record_here: Record) -> None:
        with record_here() as run:
            function = compiled(double)
            for n in (4, 6, 1, 0, 9):
                function(ones(n, 3))
        assert findings(run) == []

    def test_each_axis_of_each_input_once(self, record_here: Record) -> None:
        with record_here() as run:
            function = compiled(lambda x, y: (x * 2, y + 1))
            for n, m in ((4, 4), (6, 4), (6, 5), (7, 9), (8, 2)):
                function(ones(n, m), ones(m, n))
        assert findings(run) == []

    def test_a_few_sizes_where_each_was_to_have_its_own_code(self, record_here: Record) -> None:
        with record_here() as run:
            function = compiled(double, dynamic=False)
            for n in (2, 4, 8, 2, 4):
                function(ones(n))
        assert findings(run) == []

    def test_numbers(self, record_here: Record) -> None:
        with record_here() as run:
            function = compiled(scale)
            for k in (2, 3, 4, 1, 0, 9):
                function(ones(3), k)
        assert findings(run) == []

    def test_modes_and_dtypes_once_each(self, record_here: Record) -> None:
        model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout())
        with record_here() as run:
            function = compiled(model)
            for n in (3, 5, 7):
                function(ones(n, 4))
            model.eval()
            function(ones(9, 4))
            with torch.no_grad():
                function(ones(9, 4))
            model.double()
            function(ones(9, 4).double())
        assert findings(run) == []

    def test_an_optional_argument(self, record_here: Record) -> None:
        with record_here() as run:
            function = compiled(lambda x, mask=None: x + 1 if mask is None else x * mask)
            for _ in range(3):
                function(ones(3))
                function(ones(3), ones(3))
        assert findings(run) == []

    def test_models_of_one_class_compiled_one_by_one(self, record_here: Record) -> None:
        with record_here() as run:
            for width in (4, 8, 16, 32):
                compiled(torch.nn.Linear(width, width))(ones(2, width))
        assert findings(run) == []

    def test_a_branch_on_the_size_compiles_both_ways(self, record_here: Record) -> None:
        def branch(x):
            return x * 2 if x.shape[0] > 10 else x * 3

        with record_here() as run:
            function = compiled(branch)
            for n in (4, 5, 12, 20, 3):
                function(ones(n))
        assert findings(run) == []

    def test_ids_start_again_after_a_reset(self, record_here: Record) -> None:
        with record_here() as run:
            for _ in range(3):
                function = compiled(double)
                function(ones(3))
                function(ones(4))
                torch._dynamo.reset()
        assert findings(run) == []


class Counter(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.seen = 0

    def forward(self, x):
        y = x + self.seen
        self.seen += 1
        return y


class Norm(torch.nn.Module):
    def __init__(self, index: int) -> None:
        super().__init__()
        self.index = index

    def forward(self, x):
        return x * self.index


SETTING = 0


def reads_setting(x):
    return x * SETTING


def loops(x):
    for i in range(x.shape[0]):
        x = x + i
    return x


def steps_of_a_counter():
    function = compiled(Counter())
    for _ in range(4):
        function(ones(3))


def many_instances():
    function = compiled(Norm.forward)
    for index in range(4):
        function(Norm(index), ones(3))


def a_new_function_each_call():
    function = compiled(lambda x, f: f(x))
    kept = [eval("lambda x: x + 1") for _ in range(4)]
    for each in kept:
        function(ones(3), each)


def a_changing_global():
    global SETTING
    function = compiled(reads_setting)
    for value in range(4):
        SETTING = value
        function(ones(3))


def a_growing_list():
    function = compiled(lambda x, parts: x + len(parts))
    for n in range(1, 5):
        function(ones(3), [1] * n)


def sizes_without_dynamism():
    function = compiled(double, dynamic=False)
    for n in range(2, 6):
        function(ones(4, n))


def sizes_that_a_loop_fixes():
    function = compiled(loops)
    for n in range(2, 6):
        function(ones(n))


def strides():
    with torch._dynamo.config.patch(automatic_dynamic_shapes=False):
        function = compiled(double)
        for n in range(40, 44):
            function(torch.zeros(8, n)[:, :4])


@pytest.mark.parametrize(
    ("program", "cause", "subject", "axis"),
    [
        (steps_of_a_counter, "int-attribute", "self.seen", None),
        (many_instances, "int-attribute", "self.index", None),
        (a_new_function_each_call, "identity", "f", None),
        (a_changing_global, "global", "SETTING", None),
        (a_growing_list, "container", "parts", None),
        (sizes_without_dynamism, "shape-axis", "x", 1),
        (sizes_that_a_loop_fixes, "shape-axis", "x", 0),
        (strides, "stride", "x", 0),
    ],
)
def test_what_varies_is_named(record_here: Record, program, cause: str, subject: str, axis) -> None:
    with record_here() as run:
        program()
    finding = only(run, "recompiles")
    group = finding.data["groups"][0]
    assert (group["cause"], group["subject"], group["axis"]) == (cause, subject, axis)
    assert group["recompiles"] == 3
    assert finding.severity == "warning"
    assert finding.where.file == __file__


def test_values_are_listed_in_the_order_seen(record_here: Record) -> None:
    with record_here() as run:
        sizes_without_dynamism()
    assert only(run, "recompiles").data["groups"][0]["values"] == ["2", "3", "4", "5"]


class TestLimit:
    def test_the_call_from_which_it_is_eager(self, record_here: Record) -> None:
        with record_here() as run:
            function = compiled(double, dynamic=False)
            for n in range(2, 14):
                function(ones(n))
                function(ones(n))
        finding = only(run, "recompile-limit")
        assert finding.severity == "error"
        assert finding.data["eager_from_call"] == 17  # eight sizes, twice each, stay compiled
        assert finding.data["groups"][0]["subject"] == "x"

    def test_with_fullgraph_calls_raise(self, record_here: Record) -> None:
        with record_here() as run, tried():
            function = compiled(double, dynamic=False, fullgraph=True)
            for n in range(2, 14):
                function(ones(n))
        finding = only(run, "recompile-limit")
        assert finding.data["eager_from_call"] is None
        assert finding.data["raises_from_call"] == 9
        assert finding.cost.results == "failed"

    def test_of_a_resumed_function_the_cause_is_what_crosses_the_break(self, record_here: Record) -> None:
        @torch._dynamo.disable
        def name_of(i):
            return f"request {i}"

        def step(x, i):
            doubled = x * 2
            name = name_of(i)
            return doubled + len(name)

        with record_here() as run:
            function = compiled(step)
            for i in range(12):
                function(ones(3), i)
        (finding,) = [f for f in findings(run) if f.code == "recompile-limit"]
        line = f"{PurePath(__file__).name}:{line_of(step, 'name_of(i)')}"
        assert finding.title.startswith("the rest of ")
        assert finding.title.endswith(f"the value from the graph break at {line} varies")
        assert finding.suggestion.startswith(f"Do away with the graph break at {line}")
        assert "dynamic=True" not in finding.suggestion  # of `i`, which torch made dynamic on call 2
        assert finding.data["groups"][0]["values"][:2] == ["'request 0'", "'request 1'"]

    def test_the_view_has_a_row_for_the_call_that_ran_eager(self, record_here: Record) -> None:
        with record_here() as run:
            function = compiled(double, dynamic=False)
            for n in range(2, 14):
                function(ones(n))
        rows = run.load().frames.compiles
        assert [row.result for row in rows] == ["compiled"] * 8 + ["eager"]
        assert rows[-1].compile_id == "0/8"

    def test_below_the_limit_nothing_is_said_of_it(self, record_here: Record) -> None:
        with record_here() as run:
            function = compiled(double)
            for n in range(2, 14):
                function(ones(n))
        assert alarms(run) == []


KEYS = {"frame", "compile_id", "where", "result", "reason", "calls", "duration_ms"}


def test_the_view_has_the_keys_of_the_contract(record_here: Record) -> None:
    with record_here() as run:
        function = compiled(double)
        for n in (3, 4, 5):
            function(ones(n))
        compiled(lambda x: x)(ones(3))
    loaded = run.load()
    first, second, left_alone = frames(Source(loaded, findings(run))).items
    assert set(first.__struct_fields__) >= KEYS
    assert (first.result, first.compile_id, first.calls) == ("compiled", "0/0", 1)
    assert (second.compile_id, second.calls) == ("0/1", 2)
    assert second.recompiled_for == ["tensor 'x' size mismatch at index 0. expected 3, actual 4"]
    assert (left_alone.result, left_alone.calls) == ("skipped", None)
    assert "No ops traced" in left_alone.reason
