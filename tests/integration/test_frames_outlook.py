"""Recompiles told over time: on which calls, how the value moves, when the limit will be met."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch._dynamo import maybe_mark_dynamic

from compdbg.views.base import Source
from compdbg.views.frames import frames
from tests.integration.frames_here import Record, compiled, findings, line_of, ones, only

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

TABLE = torch.arange(8.0)[:, None]


class Counter(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.seen = 0

    def forward(self, x):
        self.seen += 2
        return x * self.seen


def loops(x):
    y = x
    for i in range(x.shape[0]):
        y = y + i
    return y


def adds_both(x, y):
    z = x + y
    return z + TABLE


class TestForecast:
    def test_a_counter_meets_the_limit_on_the_call_that_was_foretold(self, record_here: Record) -> None:
        with record_here() as short:
            model = compiled(Counter())
            for _ in range(4):
                model(ones(3))
        torch._dynamo.reset()
        with record_here() as long:
            model = compiled(Counter())
            for _ in range(12):
                model(ones(3))
        finding, hit = only(short, "recompiles"), only(long, "recompile-limit")
        assert finding.data["forecast"] == {"limit": 8, "entries": 4, "eager_from_call": 9}
        assert hit.data["eager_from_call"] == 9
        group = finding.data["groups"][0]
        assert (group["calls"], group["trend"]) == ([2, 3, 4], "grows by 2")
        assert "at this rate calls run eager from call 9 on" in finding.cause

    def test_what_torch_made_dynamic_and_the_code_fixed(self, record_here: Record) -> None:
        with record_here() as run:
            function = compiled(loops)
            for n in (4, 5, 6):
                function(ones(n, 2))
        finding = only(run, "recompiles")
        place = f"test_frames_outlook.py:{line_of(loops, 'range(')}"
        assert (
            f"The code fixes it. x.size(0): made dynamic by torch, as it had varied → s77 → 5 at {place}"
            in (finding.cause)
        )


class TestOneCause:
    def test_the_limit_that_a_fixed_dimension_uses_up_is_told_with_it(self, record_here: Record) -> None:
        with record_here() as run, torch._dynamo.config.patch(recompile_limit=3):
            function = compiled(loops, dynamic=True)
            for n in (4, 5, 6, 7, 8):
                function(ones(n, 2))
        finding = only(run, "dim-specialised")
        assert finding.severity == "error"
        assert finding.data["eager_from_call"] == 4
        assert finding.where.line == line_of(loops, "range(")

    def test_the_limit_has_a_finding_of_its_own_where_something_else_varies_too(
        self, record_here: Record
    ) -> None:
        with record_here() as run, torch._dynamo.config.patch(recompile_limit=3):
            function = compiled(lambda x, mode: loops(x) if mode != "-" else x, dynamic=True)
            for n, mode in ((4, "a"), (5, "a"), (5, "b"), (5, "c"), (5, "d")):
                function(ones(n, 2), mode)
        codes = [f.code for f in findings(run)]
        assert codes == ["recompile-limit", "dim-specialised"]


class TestLifeLine:
    def test_from_the_mark_through_another_input_to_the_line_that_fixes_it(self, record_here: Record) -> None:
        x, y = ones(8, 4), ones(8, 4)
        maybe_mark_dynamic(x, 0)
        maybe_mark_dynamic(y, 0)
        with record_here() as run:
            compiled(adds_both)(x, y)
        steps = only(run, "dim-specialised").data["life_line"]
        assert [step["step"] for step in steps] == ["asked", "symbol", "joined", "fixed"]
        joined, fixed = steps[2], steps[3]
        assert joined["where"]["line"] == line_of(adds_both, "x + y")
        assert "(y.size(0))" in joined["text"]
        assert fixed["where"]["line"] == line_of(adds_both, "TABLE")
        assert (fixed["op"], fixed["node"]) == ("aten.add.Tensor", "add_1")
        assert fixed["text"].startswith("8 by aten.add.Tensor at test_frames_outlook.py:")
        assert fixed["text"].endswith("meeting TABLE (8, 1)")

    def test_a_size_of_one_has_no_symbol(self, record_here: Record) -> None:
        x = ones(1, 4)
        maybe_mark_dynamic(x, 0)
        with record_here() as run:
            compiled(F.relu)(x)
        steps = only(run, "dim-specialised").data["life_line"]
        assert [step["step"] for step in steps] == ["asked", "static"]
        assert steps[1]["text"] == "static 1: torch makes no symbol of 0 or 1"


def test_the_frames_view_has_it_all(record_here: Record) -> None:
    with record_here() as run:
        function = compiled(loops)
        for n in (4, 5, 6):
            function(ones(n, 2))
    loaded = run.load()
    view = frames(Source(loaded, []))
    assert [row.call for row in view.items] == [1, 2, 3]
    assert [row.cause for row in view.items] == [None, "size 0 of x", "size 0 of x"]
    assert [row.sizes[0].became for row in view.items if row.sizes] == ["fixed", "fixed"]
    text = "\n".join(view.lines)
    assert "loops: 3 of at most 8 entries; recompiled for size 0 of x (4, 5, 6)" in text
    assert "loops: x.size(0): made dynamic by torch, as it had varied → s77 → 5 at" in text
