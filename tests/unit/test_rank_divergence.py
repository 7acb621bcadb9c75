"""Ranks side by side: other graphs, other decisions, and what only looks so."""

from __future__ import annotations

from pathlib import Path

import pytest

from compdbg.events import (
    Capture,
    Event,
    FrameStart,
    FusionsDiffer,
    Graph,
    Header,
    Pattern,
    PatternPass,
    Piece,
    Where,
)
from compdbg.findings.rank_divergence import rank_divergence
from compdbg.model.run import Run
from compdbg.store.reader import Log, Record

CODE = """
def forward(self, L_x_: "f32[3, 16]"):
    # File: /home/a/m.py:8 in step, code: y = x * 2 + {offset}
    mul: "f32[3, 16]" = L_x_ * 2
    add = mul + {offset}
    return (add,)
"""


def run_of(folder: Path, *ranks: list[Event | str]) -> Run:
    """A run whose rank n recorded the n-th list; a text is the graph of a function."""
    (folder / "payloads").mkdir()
    records = []
    for rank, events in enumerate(ranks):
        for number, event in enumerate(events):
            placed = (
                [event]
                if isinstance(event, Event)
                else _graph(folder, f"{rank:016x}{number:016x}", number, event)
            )
            for each in placed:
                header = Header(process=f"p{rank}", seq=len(records) + 1, time=float(len(records)), rank=rank)
                records.append(Record(header, each))
    return Run(Log(folder, {}, records))


def _graph(folder: Path, digest: str, number: int, text: str) -> list[Event]:
    (folder / "payloads" / f"{digest}.txt").write_text(text)
    compile_id = f"{number}/0"
    where = Where("m.py", 8, "step")
    return [
        FrameStart(frame=f"m.py:{8 + number}:step", compile_id=compile_id, where=where, name="step"),
        Graph(graph=compile_id, stage="dynamo", text=digest, compile_id=compile_id),
    ]


def test_another_op_on_one_rank(tmp_path: Path) -> None:
    other = CODE.replace("mul + {offset}", "mul - {offset}")
    run = run_of(tmp_path, [CODE], [CODE], [other])
    (finding,) = rank_divergence(run)
    assert (finding.code, finding.severity) == ("rank-divergence", "error")
    assert finding.data["by_rank"] == {"0": "graph 1", "1": "graph 1", "2": "graph 2"}
    assert "`add = mul + {offset}` where rank 2 has `add = mul - {offset}`" in finding.cause
    assert finding.where == Where("m.py", 8, "step")


@pytest.mark.parametrize(
    "other",
    [CODE, CODE.replace("3, 16", "5, 16"), CODE.replace("{offset}", "512"), CODE.replace("{offset}", "0.5")],
    ids=["the same", "another batch", "the rank's offset", "a rate"],
)
def test_numbers_are_no_divergence(tmp_path: Path, other: str) -> None:
    run = run_of(tmp_path, [CODE.replace("{offset}", "0")], [other.replace("{offset}", "8")])
    assert list(rank_divergence(run)) == []


def test_one_call_more(tmp_path: Path) -> None:
    longer = CODE.replace("    return (add,)", "    relu = add.relu()\n    return (relu,)")
    (finding,) = rank_divergence(run_of(tmp_path, [CODE], [longer]))
    assert finding.data["kind"] == "graph"


def test_a_function_that_only_one_rank_compiles(tmp_path: Path) -> None:
    assert list(rank_divergence(run_of(tmp_path, [CODE, CODE.replace("mul", "div")], [CODE]))) == []


def matched(count: int) -> PatternPass:
    pattern = Pattern(name="rms")
    by = {"rms": count} if count else {}
    return PatternPass(
        pass_id="p1", pass_name="Fusion", graph="0/0", patterns=[pattern], matched=count, matched_by=by
    )


def test_a_fusion_that_one_rank_refuses(tmp_path: Path) -> None:
    (finding,) = rank_divergence(run_of(tmp_path, [CODE, matched(2)], [CODE, matched(0)]))
    assert finding.data["kind"] == "fusion"
    assert finding.data["by_rank"] == {"0": "2 matched", "1": "0 matched"}
    assert finding.evidence


def differ(here: int, there: int) -> FusionsDiffer:
    return FusionsDiffer(pass_name="Fusion", graph="0/0", matched=here, other_rank=1, other_matched=there)


def test_what_one_rank_saw_of_another_that_is_not_recorded(tmp_path: Path) -> None:
    (finding,) = rank_divergence(run_of(tmp_path, [CODE, matched(2), differ(2, 0)]))
    assert finding.data["by_rank"] == {"0": "2 matched", "1": "0 matched"}
    assert finding.evidence == ["p0:4"]


def test_what_a_rank_saw_and_both_recorded_is_one_finding(tmp_path: Path) -> None:
    run = run_of(tmp_path, [CODE, matched(2), differ(2, 0)], [CODE, matched(0)])
    assert [f.data["subject"] for f in rank_divergence(run)] == ["Fusion"]


def test_fusions_that_agree(tmp_path: Path) -> None:
    assert list(rank_divergence(run_of(tmp_path, [CODE, matched(2)], [CODE, matched(2)]))) == []


def test_pieces_and_captured_sizes(tmp_path: Path) -> None:
    pieces = [Piece(graph="0/0", piece=f"submod_{n}", piece_kind="compiled") for n in range(3)]
    sizes = [Capture(graph="0/0", piece="submod_0", size=n) for n in (1, 2, 4)]
    run = run_of(tmp_path, [CODE, *pieces, *sizes], [CODE, *pieces[:2], *sizes[:2]])
    kinds = {f.data["kind"]: f.data["detail"] for f in rank_divergence(run)}
    assert kinds == {"pieces": "rank 1 has no 0/0 submod_2", "captures": "rank 1 has no 4"}


def test_one_rank_alone_has_nothing_to_differ_from(tmp_path: Path) -> None:
    assert list(rank_divergence(run_of(tmp_path, [CODE, matched(1)]))) == []
