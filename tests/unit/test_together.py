"""With all fusions on, those that had nothing to do come last, and a person reads them as one."""

from __future__ import annotations

import json

from compdbg.cli.main import main
from compdbg.events import Pattern, PatternPass, Piece
from compdbg.findings.collect import find_all
from compdbg.report.text import render
from compdbg.views.base import Source
from compdbg.views.findings import findings
from compdbg.views.together import together
from tests.tui.runs import Builder
from tests.unit.test_pipeline_model import run_of


def idle(name, graph="m p_0"):
    pattern = Pattern(name=name, anchors=[f"demo.{name}.default"], nodes=2)
    return PatternPass(pass_id=name, pass_name=name, graph=graph, patterns=[pattern], attempted_by={name: 0})


def found(*events):
    return find_all(run_of(*events))


def test_several_are_one_with_all_their_ids():
    (whole,) = together(found(idle("A"), idle("B"), idle("C")))
    assert (whole.id, whole.severity, whole.code) == ("F1-F3", "info", "fusion-no-candidate")
    assert whole.title == "3 fusions ran and found nothing to fuse: A, B, C"
    assert whole.cause.splitlines() == [
        "On graph m p_0:",
        "A: no demo.A.default in the graph.",
        "B: no demo.B.default in the graph.",
        "C: no demo.C.default in the graph.",
    ]


def test_of_different_graphs_each_says_its_own():
    (whole,) = together(found(idle("A"), idle("B", "other")))
    assert whole.cause.splitlines() == [
        "A: On graph m p_0: no demo.A.default in the graph.",
        "B: On graph other: no demo.B.default in the graph.",
    ]


def test_one_alone_stays_as_it_is():
    alone = found(idle("A"))
    assert together(alone) == alone


def test_the_table_has_one_row_and_json_has_all():
    view = findings(Source(run_of(idle("A"), idle("B")), found(idle("A"), idle("B"))))
    assert [finding.id for finding in view.items] == ["F1", "F2"]
    assert "F1-F2" in render(view)
    assert [finding.data["pass"] for finding in view.items] == ["A", "B"]


def test_the_command_tells_of_all_at_once_and_of_each_by_its_id(tmp_path, capsys):
    builder = Builder(tmp_path / "run")
    for event in (idle("A"), idle("B")):
        builder.add(event)
    builder.manifest(complete=True)

    def told(*words):
        assert main(["explain", str(tmp_path / "run"), *words]) == 0
        return capsys.readouterr().out

    assert "F1-F2  info  fusion-no-candidate\n    2 fusions ran and found nothing to fuse: A, B\n" in told()
    assert "F2  info  fusion-no-candidate\n    B ran and found nothing to fuse\n" in told("F2")
    assert [item["id"] for item in json.loads(told("--json"))["items"]] == ["F1", "F2"]


def test_what_else_there_is_goes_first():
    empty = Piece(graph="m", piece="p_2", piece_kind="compiled", ops=1, op_counts={"aten::empty": 1})
    codes = [finding.code for finding in found(idle("A"), empty, idle("B"))]
    assert codes == ["split-empty-piece", "fusion-no-candidate", "fusion-no-candidate"]
