"""A pattern beside the graph: which lines are partners, which differ, which lines of a graph are shown."""

from __future__ import annotations

from pathlib import Path

from compdbg.events import Graph, Header, MatchAttempt, NearMiss, Pattern, PatternPass
from compdbg.model.run import Run
from compdbg.store.reader import Log, Record
from compdbg.views.base import Source
from compdbg.views.comparison import Comparison, comparisons

TEXT = """\
def forward(
    arg0_1: "f32[4, 4]cpu",
):
    mm: "f32[4, 4]cpu" = aten.mm.default(arg0_1, arg0_1)
    other = aten.sin.default(arg0_1)
    pow_1 = aten.pow.Tensor_Scalar(mm, 2)
    mean = aten.mean.dim(pow_1, [-1], True)
    add = aten.add.Tensor(mean, 1e-05)
    rsqrt = aten.rsqrt.default(add)
    mul = aten.mul.Tensor(mm, rsqrt)
    return (mul,)"""

STEPS = [
    "pow = aten.pow.Tensor_Scalar(x, *)",
    "mean = aten.mean.dim(pow, *, True)",
    "add = aten.add.Tensor(mean, 1e-06)",
    "rsqrt = aten.rsqrt.default(add)",
    "mul = aten.mul.Tensor(x, rsqrt)",
]


def compared(*, text: str = TEXT, steps: list[str] = STEPS, sites: int = 1) -> Comparison:
    miss = NearMiss(
        reason="arg-mismatch", stage="second", node="add", wanted="other=1e-06 of aten.add.Tensor",
        found="other=1e-05", matched_nodes=2, pattern_nodes=5,
    )  # fmt: skip
    pattern = Pattern(name="norm", anchors=["aten.mul.Tensor"], ops=["aten.add.Tensor"], nodes=5, steps=steps)
    made = {"pass_id": "p1", "pass_name": "NormPass", "graph": "0/0"}
    events = [
        Graph(graph="0/0", stage="post-grad", text="ab"),
        PatternPass(**made, graph_id=1, patterns=[pattern], attempted=1),
        *(
            MatchAttempt(
                **made, pattern="norm", anchor="mul" if n == 0 else f"mul_{n}", outcome="missed", graph_id=1,
                near=True, near_nodes=["add"], miss=miss,
            )
            for n in range(sites)
        ),
    ]  # fmt: skip
    records = [Record(Header(process="a", seq=n, time=float(n)), e) for n, e in enumerate(events, 1)]
    (found,) = comparisons(Source(Run(Log(Path("r"), {}, records, texts={"ab": text})), []))
    return found


def test_the_line_that_differs_and_its_partner() -> None:
    found = compared()
    (left,) = [line for line in found.pattern_lines if line.state == "differs"]
    assert left.text == "add = aten.add.Tensor(mean, 1e-06)"
    assert left.pair is not None
    assert found.graph_lines[left.pair].text == "add = aten.add.Tensor(mean, 1e-05)"
    assert found.graph_lines[left.pair].state == "differs"


def test_what_was_matched_is_paired_in_order_and_so_is_what_was_not_reached() -> None:
    found = compared()
    pairs = [
        (line.name, found.graph_lines[line.pair].name)
        for line in found.pattern_lines
        if line.pair is not None
    ]
    assert pairs == [
        ("pow", "pow_1"), ("mean", "mean"), ("add", "add"), ("rsqrt", "rsqrt"), ("mul", "mul"),
    ]  # fmt: skip
    assert [line.state for line in found.pattern_lines] == [
        "around",
        "around",
        "differs",
        "matched",
        "matched",
    ]


def test_only_what_leads_to_the_site_is_shown_with_its_gaps() -> None:
    lines = compared().graph_lines
    assert "other" not in [line.name for line in lines]
    assert lines[0].name == "mm"
    assert lines[0].type == "f32[4, 4]cpu"
    assert next(line for line in lines if line.name == "pow_1").gap


def test_sites_missed_alike_are_one_comparison() -> None:
    found = compared(sites=3)
    assert found.sites == 3
    assert found.events == ["a:3", "a:4", "a:5"]


def test_a_graph_that_was_not_recorded_leaves_its_side_empty() -> None:
    found = compared(text="nothing like it")
    assert found.graph_lines == []
    assert all(line.pair is None for line in found.pattern_lines)


def test_a_pattern_recorded_without_its_steps_shows_its_ops() -> None:
    assert [line.text for line in compared(steps=[]).pattern_lines] == ["aten.add.Tensor", "aten.mul.Tensor"]
