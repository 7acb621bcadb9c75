"""What `show fusion` counts: its sentences, its rows and the findings have the same numbers."""

from __future__ import annotations

from compdbg.events import MatchAttempt, NearMiss, Pattern, PatternPass, Piece
from compdbg.findings.fusion_missed import fusion_missed
from compdbg.views.base import Source
from compdbg.views.fusion import fusion
from tests.unit.test_pipeline_model import run_of

MISS = NearMiss(reason="arg-mismatch", stage="second", wanted="eps=1e-05", found="eps=1e-06", matched_nodes=2)
PATTERNS = [Pattern(name=name, anchors=["aten.round.default"], nodes=2) for name in ("norm", "norm_again")]


def piece(name, twin_of=None):
    return Piece(graph="M", piece=name, piece_kind="compiled", shared_with=twin_of)


def tried(graph, *, matched=0, left_by=()):
    """An apply of `Norm` to a graph: it fired, and each of some patterns nearly took one site more."""
    attempts = [
        MatchAttempt(pass_id="1", pass_name="Norm", pattern="norm", graph=graph, graph_id=hash(graph),
                     anchor=f"m{n}", outcome="matched", consumed=[f"m{n}"])
        for n in range(matched)
    ]  # fmt: skip
    attempts += [
        MatchAttempt(pass_id="1", pass_name="Norm", pattern=name, graph=graph, graph_id=hash(graph),
                     anchor="a", outcome="missed", near=True, near_nodes=["n"], miss=MISS)
        for name in left_by
    ]  # fmt: skip
    applied = PatternPass(
        pass_id="1", pass_name="Norm", graph=graph, graph_id=hash(graph), patterns=PATTERNS, matched=matched,
        matched_by={"norm": matched},
    )  # fmt: skip
    return [*attempts, applied]


def shown(*events):
    """The sentences, and of each row the counts."""
    view = fusion(Source(run_of(*events), []))
    cells = {column.title: column.cell for column in view.columns}
    rows = [(cells["matched"](r), cells["sites left"](r)) for r in view.items]
    return list(view.lines), rows


def test_equal_pieces_count_in_the_sentence_and_are_said_in_the_row():
    pieces = [piece("p_0"), piece("p_2"), piece("p_4", "p_2"), piece("p_6", "p_2")]
    lines, rows = shown(*pieces, *tried("M p_0", matched=1), *tried("M p_2", matched=2, left_by=["norm"]))
    assert lines == [
        "Norm fired at 7 sites and left 3 sites.",
        "2 × 3 in the table: a graph compiled once for 3 equal pieces; the sentences count each piece.",
    ]
    assert rows == [("1", "0"), ("0", "0"), ("2 × 3", "1 × 3"), ("0", "0")]


def test_without_equal_pieces_there_is_nothing_to_explain():
    lines, rows = shown(piece("p_0"), *tried("M p_0", matched=1, left_by=["norm"]))
    assert lines == ["Norm fired at 1 site and left 1 site."]
    assert rows == [("1", "1"), ("0", "0")]


def test_a_site_that_two_patterns_nearly_took_is_one_site():
    lines, rows = shown(*tried("M p_0", left_by=["norm", "norm_again"]))
    assert lines == [
        "Norm missed 1 site.",
        "A site that several patterns nearly took is in the row of each; the sentences count it once.",
    ]
    assert rows == [("0", "1"), ("0", "1")]


def test_the_finding_counts_alike():
    pieces = [piece("p_2"), piece("p_4", "p_2")]
    (finding,) = fusion_missed(run_of(*pieces, *tried("M p_2", matched=2, left_by=["norm", "norm_again"])))
    assert (finding.data["sites"], finding.data["fired"]) == (2, 4)
    assert finding.title.startswith("Norm missed 2 sites")
