"""Graph breaks: every one, by the function and the line of the user's that holds it, with a hint."""

from __future__ import annotations

import pytest
import torch

from compdbg.views.base import Source
from compdbg.views.frames import frames
from tests.integration.frames_here import Record, compiled, findings, line_of, ones, only, tried

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


def noisy(x):
    y = x * 2
    print("mean", y.mean().item())
    if y.sum() > 0:
        y = y + 1
    torch._dynamo.graph_break()
    return y * 3


def test_all_breaks_of_a_function_are_one_finding(record_here: Record) -> None:
    with record_here() as run:
        compiled(noisy)(ones(4))
    finding = only(run, "graph-break")
    lines = [line_of(noisy, ".item()"), line_of(noisy, "if y.sum()"), line_of(noisy, "graph_break()")]
    assert finding.severity == "warning"
    assert finding.data["lines"] == lines
    assert finding.data["function"] == "noisy"
    assert all(each["hint"] for each in finding.data["breaks"])
    assert "torch.where" in finding.suggestion


def helper(x):
    y = x + 1
    print()
    return y * 2


def calls_helper(x):
    x = x * 2
    return helper(x) + 1


def loops_over_helper(x):
    for _ in range(2):
        x = helper(x) + 1
    return x


@pytest.mark.parametrize("function", [calls_helper, loops_over_helper])
def test_a_break_in_an_inlined_function_is_found_there(record_here: Record, function) -> None:
    with record_here() as run:
        compiled(function)(ones(4))
    finding = only(run, "graph-break")
    assert finding.data["function"] == "helper"
    assert finding.data["lines"] == [line_of(helper, "print()")]


def test_a_frame_that_is_skipped_as_a_whole_says_so(record_here: Record) -> None:
    def loop(x):
        for _ in range(2):
            x = x + 1
            torch._dynamo.graph_break()
        return x

    with record_here() as run:
        compiled(loop)(ones(4))
    finding = only(run, "graph-break")
    assert finding.data["skipped_frames"] == ["loop"]
    assert "eager as a whole" in finding.title
    assert finding.data["lines"] == [line_of(loop, "graph_break()")]


def test_fullgraph_makes_it_an_error_and_the_only_one(record_here: Record) -> None:
    def branch(x):
        if x.sum() > 0:
            return x + 1
        return x - 1

    with record_here() as run, tried():
        compiled(branch, fullgraph=True)(ones(4))
    finding = only(run, "graph-break")
    assert finding.severity == "error"
    assert finding.data["lines"] == [line_of(branch, "if x.sum()")]
    assert finding.cost.results == "failed"


def test_a_data_dependent_guard_in_torchs_own_code_points_at_the_call(record_here: Record) -> None:
    def loss(x):
        return torch.nn.functional.gaussian_nll_loss(x, x, x)

    with record_here() as run, tried():
        compiled(loss, fullgraph=True)(ones(3))
    finding = only(run, "graph-break")
    assert finding.severity == "error"
    assert finding.where.line == line_of(loss, "gaussian_nll_loss")


def test_two_methods_of_one_name_are_two_findings(record_here: Record) -> None:
    class A(torch.nn.Module):
        def forward(self, x):
            torch._dynamo.graph_break()
            return x * 2

    class B(torch.nn.Module):
        def forward(self, x):
            return x * x.sum().item()

    with record_here() as run:
        compiled(torch.nn.Sequential(A(), B()))(ones(3))
    assert [f.data["function"] for f in findings(run)] == ["A.forward", "B.forward"]


def test_error_on_graph_break_is_named_as_what_makes_it_fatal(record_here: Record) -> None:
    def strict(x):
        with torch._dynamo.error_on_graph_break(True):
            torch._dynamo.graph_break()
        return x + 1

    with record_here() as run, tried():
        compiled(strict)(ones(3))
    finding = only(run, "graph-break")
    assert finding.severity == "error"
    assert finding.title.startswith("error_on_graph_break fails")


def test_a_disabled_function_breaks_at_its_call(record_here: Record) -> None:
    @torch.compiler.disable
    def off(x):
        return x + 1

    def calls(x):
        x = x * 2
        return off(x) * 3

    with record_here() as run:
        compiled(calls)(ones(3))
    finding = only(run, "graph-break")
    assert finding.data["lines"] == [line_of(calls, "off(x)")]
    assert "torch.compiler.disable" in finding.suggestion


def test_what_torch_breaks_on_purpose_is_no_alarm(record_here: Record) -> None:
    layer = torch.nn.Linear(3, 3)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    layer(ones(2, 3)).sum().backward()
    with record_here() as run:
        compiled(optimizer.step)()
    assert [(f.code, f.severity) for f in findings(run)] == [("graph-break", "info")]


def test_the_same_break_on_a_recompile_is_not_counted_twice(record_here: Record) -> None:
    with record_here() as run:
        function = compiled(calls_helper)
        for n in (3, 4, 5):
            function(ones(n))
    assert len(only(run, "graph-break").data["breaks"]) == 1


def test_code_without_breaks_is_clean(record_here: Record) -> None:
    def plain(x):
        with torch.no_grad():
            y = x * 2
        return y if x.shape[0] > 2 else y + 1

    with record_here() as run:
        compiled(plain, fullgraph=True)(ones(3))
    assert findings(run) == []


def test_a_break_that_a_recompiled_frame_meets_again_is_one_line_of_the_view(record_here: Record) -> None:
    def step(x, mode):
        y = x * len(mode)
        print()
        return y + 1

    with record_here() as run:
        for mode in ("a", "b", "c"):
            compiled(step)(ones(4), mode)
    loaded = run.load()
    assert "1 graph break, met 3 times; " in frames(Source(loaded, [])).lines[0]


def test_breaks_of_two_kinds_on_one_line_are_counted_as_the_finding_counts_them(record_here: Record) -> None:
    def step(x):
        print(x.sum().item())
        return x + 1

    with record_here() as run:
        compiled(step)(ones(4))
    loaded = run.load()
    finding = only(run, "graph-break")
    assert finding.title.startswith("2 graph breaks in ")
    assert "2 graph breaks on 1 line; " in frames(Source(loaded, [])).lines[0]
