"""Expectations: what a file may say, and how runs made of a few events are judged by it."""

from __future__ import annotations

import tomllib

import pytest

from compdbg.events import (
    CachedWork,
    Capture,
    Dispatch,
    Event,
    FrameEnd,
    FrameStart,
    GraphBreak,
    Guard,
    GuardAudit,
    Guards,
    GuardViolation,
    Header,
    HookState,
    MatchAttempt,
    NearMiss,
    Pattern,
    PatternPass,
    Piece,
    ProcessStart,
    Where,
)
from compdbg.events.guards import LOADED
from compdbg.expect.file import WrongExpectation, from_tables
from compdbg.expect.judge import failed, judge
from compdbg.findings.base import Finding
from compdbg.findings.collect import find_all
from compdbg.model.run import Run
from compdbg.report.check_markdown import render
from compdbg.store.reader import Log, Record


def run_of(*events: Event | tuple[int, Event]) -> Run:
    """A run of these events, of a process without a rank or of the rank's that stands beside it."""
    records = []
    for n, given in enumerate(events, 1):
        rank, event = given if isinstance(given, tuple) else (None, given)
        process = "a" if rank is None else f"p{rank}"
        parent = next((r.header.seq for r in records if isinstance(r.event, Guards)), None)
        header = Header(process=process, seq=n, time=float(n), rank=rank, parent=parent)
        records.append(Record(header, event))
    return Run(Log(None, {}, records))


def statuses(run: Run, toml: str, findings: list[Finding] | None = None) -> dict[str, tuple]:
    expected = from_tables(tomllib.loads(toml))
    found = find_all(run) if findings is None else findings
    return {v.expectation: (v.wanted, v.found, v.status) for v in judge(run, found, expected)}


def start(rank: int) -> tuple[int, Event]:
    return rank, ProcessStart(
        pid=rank, ppid=0, argv=[], executable="", python="", cwd="", host="h", how="run"
    )


FRAME = "/home/me/model.py:3:forward"
COMPILED = (
    FrameStart(frame=FRAME, compile_id="0/0"),
    FrameEnd(frame=FRAME, compile_id="0/0", result="compiled"),
)


def applied(matched: int, left: int = 0) -> list[Event]:
    """A pass `Norm` that fired at some sites and stopped short of others, for another epsilon."""
    pattern = Pattern(name="norm", anchors=["aten.round.default"], nodes=2)
    miss = NearMiss(
        reason="arg-mismatch",
        stage="second",
        wanted="eps=1e-05",
        found="eps=1e-06",
        matched_nodes=1,
        pattern_nodes=2,
        where=Where("/home/me/model.py", 7, "forward"),
    )
    tries: list[Event] = [
        MatchAttempt(pass_id="1", pass_name="Norm", pattern="norm", graph="0/0", anchor=f"a{n}",
                     outcome="missed", near=True, near_nodes=[f"n{n}"], miss=miss)
        for n in range(left)
    ]  # fmt: skip
    whole = PatternPass(
        pass_id="1",
        pass_name="Norm",
        aliases=["norm_fusion"],
        graph="0/0",
        patterns=[pattern],
        matched=matched,
        matched_by={"norm": matched},
        attempted_by={"norm": matched + left},
    )
    return [*tries, whole]


class TestFile:
    @pytest.mark.parametrize(
        ("toml", "says"),
        [
            ("[fusoin.X]\nmatched = 1", r"\[fusoin\] is no known key; did you mean fusion\?"),
            ("[fusion.X]\nmatchd = 1", r"fusion\.X\.matchd is no known key; did you mean matched\?"),
            ("[compile]\ngraph_break = 0", r"compile\.graph_break .* did you mean graph_breaks\?"),
            ("[guards]\nviolation = 0", r"guards\.violation .* did you mean violations\?"),
            ("[findings]\ndeny = ['fusion-mised']", r"'fusion-mised' .* did you mean fusion-missed\?"),
            ("[findings]\nallow = [{ fingerprnt = 'x' }]", r"fingerprnt .* did you mean fingerprint\?"),
            ("[findings]\nallow = [{ reason = 'x' }]", "neither `code` nor `fingerprint`"),
            ("[fusion.X]\nmatched = '6'", "wants a whole number from 0 on, not '6'"),
            ("[fusion.X]\nmatched = true", "wants a whole number"),
            ("[fusion.X]\nmatched = 1\nmin = 1", "both `matched` and a bound"),
            ("[fusion.X]\nmin = 2\nmax = 1", "`min` above `max`"),
            ("[fusion.X]", "is empty"),
            ("fusion = 3", r"\[fusion\] wants a table"),
            ("[sizes]\ncaptured = 4", "wants a list of sizes"),
            ("", "nothing is expected"),
            ("[findings]\nallow = [{ code = 'fusion-missed' }]", "nothing is expected"),
        ],
    )
    def test_what_can_not_be_expected_is_an_error(self, toml: str, says: str) -> None:
        with pytest.raises(WrongExpectation, match=says):
            from_tables(tomllib.loads(toml))

    def test_every_key_of_the_contract_is_known(self) -> None:
        expected = from_tables(
            tomllib.loads("""
            [fusion.A]
            matched = 6
            [fusion.B]
            min = 1
            max = 2
            [compile]
            graph_breaks = 0
            max_recompiles = 1
            max_pieces = 9
            unique_pieces = 3
            [guards]
            violations = 0
            [sizes]
            captured = [4, 1, 2]
            uncaptured_calls = 0
            [findings]
            deny = ["guard-dropped-violated"]
            allow = [{ code = "fusion-missed", fingerprint = "0123456789ab", reason = "known" }]
            """)
        )
        assert [(e.name, e.bound.wanted) for e in expected.counts] == [
            ("fusion.A.matched", 6),
            ("fusion.B.matched", "1 to 2"),
            ("compile.graph_breaks", 0),
            ("compile.max_recompiles", "at most 1"),
            ("compile.max_pieces", "at most 9"),
            ("compile.unique_pieces", 3),
            ("guards.violations", 0),
            ("sizes.captured", [1, 2, 4]),
            ("sizes.uncaptured_calls", 0),
        ]
        assert expected.deny == ["guard-dropped-violated"]
        assert expected.allow[0].reason == "known"


class TestFusion:
    def test_the_count_that_is_wanted(self) -> None:
        run = run_of(*COMPILED, *applied(2))
        toml = "[fusion.Norm]\nmatched = 2\n[fusion.norm_fusion]\nmin = 1\nmax = 2"
        assert statuses(run, toml) == {
            "fusion.Norm.matched": (2, 2, "pass"),
            "fusion.norm_fusion.matched": ("1 to 2", 2, "pass"),
        }

    def test_a_failure_shows_the_near_miss_and_its_finding(self) -> None:
        run = run_of(*COMPILED, *applied(1, left=1))
        (verdict,) = judge(run, find_all(run), from_tables({"fusion": {"Norm": {"matched": 2}}}))
        assert (verdict.wanted, verdict.found, verdict.status) == (2, 1, "fail")
        assert verdict.why == "1 site left: arg-mismatch: wanted eps=1e-05, found eps=1e-06"
        assert verdict.near_miss is not None
        assert verdict.near_miss.found == "eps=1e-06"
        assert verdict.where == Where("/home/me/model.py", 7, "forward")
        assert verdict.finding == next(f.id for f in find_all(run) if f.code == "fusion-missed")

    def test_a_pass_that_was_never_seen_is_named_with_the_nearest(self) -> None:
        run = run_of(*COMPILED, *applied(1))
        (verdict,) = judge(run, [], from_tables({"fusion": {"Nrom": {"matched": 1}}}))
        assert (verdict.found, verdict.status) == (0, "fail")
        assert verdict.why == "not-run: no such pass was seen in this run; did you mean Norm?"

    def test_ranks_must_agree(self) -> None:
        events = [start(0), start(1), *((0, e) for e in applied(2)), *((1, e) for e in applied(1))]
        assert statuses(run_of(*events), "[fusion.Norm]\nmin = 1") == {
            "fusion.Norm.matched": ("at least 1", "rank 0: 2, rank 1: 1", "fail")
        }

    def test_ranks_that_agree_count_once(self) -> None:
        events = [start(0), start(1), *((0, e) for e in applied(2)), *((1, e) for e in applied(2))]
        assert statuses(run_of(*events), "[fusion.Norm]\nmatched = 2") == {
            "fusion.Norm.matched": (2, 2, "pass")
        }

    def test_a_rank_on_which_the_pass_never_ran_does_not_agree(self) -> None:
        events = [start(0), start(1), *((0, e) for e in applied(2))]
        assert statuses(run_of(*events), "[fusion.Norm]\nmatched = 2") == {
            "fusion.Norm.matched": (2, "rank 0: 2, rank 1: 0", "fail")
        }

    def test_a_warm_start_counts_what_the_record_of_each_entry_has(self) -> None:
        """A pass lists its patterns with its first graph only; an entry of another graph has no list."""
        (first,) = applied(1)
        second = PatternPass(pass_id="1", pass_name="Norm", graph="m p_2", matched=1, matched_by={"norm": 1})
        entries = [
            CachedWork(graph="m p_0", layer="aot", key="k0", run="r", made=1.0, patterns=[first]),
            CachedWork(graph="m p_2", layer="aot", key="k2", run="r", made=1.0, patterns=[second]),
        ]
        pieces = [
            Piece(graph="m", piece="p_0", piece_kind="compiled", loaded=True),
            Piece(graph="m", piece="p_2", piece_kind="compiled", loaded=True),
            Piece(graph="m", piece="p_4", piece_kind="compiled", loaded=True, shared_with="p_2"),
        ]
        for order in (entries, entries[::-1]):
            assert statuses(run_of(*pieces, *order), "[fusion.Norm]\nmatched = 3") == {
                "fusion.Norm.matched": (3, 3, "pass")
            }

    @pytest.mark.parametrize("state", ["absent", "unused"])
    def test_without_the_hook_nothing_was_observed(self, state: str) -> None:
        hooks = [HookState(hook=name, state=state, detail="why") for name in ("pattern_matcher", "guards")]
        told = statuses(run_of(*COMPILED, *hooks), "[fusion.Norm]\nmatched = 0\n[guards]\nviolations = 0")
        assert told == {
            "fusion.Norm.matched": (0, None, "not-observed"),
            "guards.violations": (0, None, "not-observed"),
        }

    def test_twins_of_a_piece_count(self) -> None:
        pieces = [
            Piece(graph="0/0", piece="submod_0", piece_kind="compiled"),
            Piece(graph="0/0", piece="submod_2", piece_kind="compiled", shared_with="submod_0"),
        ]
        (whole,) = applied(3)
        run = run_of(*COMPILED, *pieces, PatternPass(**{f: getattr(whole, f) for f in whole.__struct_fields__}
                                                     | {"graph": "0/0 submod_0"}))  # fmt: skip
        assert statuses(run, "[fusion.Norm]\nmatched = 6\n[compile]\nmax_pieces = 2\nunique_pieces = 1") == {
            "fusion.Norm.matched": (6, 6, "pass"),
            "compile.max_pieces": ("at most 2", 2, "pass"),
            "compile.unique_pieces": (1, 1, "pass"),
        }


class TestOtherAreas:
    def test_breaks_count_by_place(self) -> None:
        at = Where("/home/me/model.py", 5, "forward")
        again = [GraphBreak(frame=FRAME, compile_id=f"0/{n}", reason=f"reason {n}", where=at) for n in (0, 1)]
        run = run_of(*COMPILED, *again)
        assert statuses(run, "[compile]\ngraph_breaks = 0") == {"compile.graph_breaks": (0, 1, "fail")}
        (verdict,) = judge(run, find_all(run), from_tables({"compile": {"graph_breaks": 0}}))
        assert verdict.why == "Broken at model.py:5"

    def test_a_model_that_was_loaded_whole_has_no_break(self) -> None:
        run = run_of(Guards(frame=FRAME, compile_id=LOADED, guards=[]))
        assert statuses(run, "[compile]\ngraph_breaks = 0\nmax_recompiles = 0") == {
            "compile.graph_breaks": (0, 0, "pass"),
            "compile.max_recompiles": ("at most 0", 0, "pass"),
        }

    def test_where_nothing_was_compiled_no_break_was_observed(self) -> None:
        assert statuses(run_of(), "[compile]\ngraph_breaks = 0\nmax_recompiles = 1") == {
            "compile.graph_breaks": (0, None, "not-observed"),
            "compile.max_recompiles": ("at most 1", None, "not-observed"),
        }

    @pytest.mark.parametrize(("effect", "found", "status"), [("differs", 3, "fail"), ("same", 0, "pass")])
    def test_violations_count_where_they_may_matter(self, effect: str, found: int, status: str) -> None:
        guard = Guard(type="CONSTANT", expr="n == 2", source="L['n']", kept=False, dropped_by="my_filter")
        run = run_of(
            Guards(frame=FRAME, compile_id="0/0", guards=[guard], drop_requested=True, audit="sampled"),
            GuardViolation(
                frame=FRAME,
                compile_id="0/0",
                type="CONSTANT",
                expr="n == 2",
                wanted="2",
                seen="3",
                call=2,
                effect=effect,
            ),
            GuardAudit(frame=FRAME, compile_id="0/0", calls=4, checked=3, causes={"n == 2": 3}),
        )
        assert statuses(run, "[guards]\nviolations = 0", []) == {"guards.violations": (0, found, status)}

    def test_guards_that_nobody_audited_were_not_observed(self) -> None:
        guard = Guard(type="CONSTANT", expr="n == 2", source="L['n']", kept=False, dropped_by="my_filter")
        run = run_of(Guards(frame=FRAME, compile_id="0/0", guards=[guard], drop_requested=True,
                            audit="not-audited", audit_reason="--audit off"))  # fmt: skip
        assert statuses(run, "[guards]\nviolations = 0", []) == {
            "guards.violations": (0, None, "not-observed")
        }

    def test_calls_without_a_capture_up_to_the_largest(self) -> None:
        run = run_of(
            *(Capture(graph="0/0", piece="", size=n) for n in (1, 4)),
            Dispatch(graph="0/0", size=4, captures=1, replays=3, eager_calls=1, warm_ups=1),
            Dispatch(graph="0/0", size=3, padded_to=4, replays=2),
            Dispatch(graph="0/0", size=2, eager_calls=2),
            Dispatch(graph="0/0", size=9, eager_calls=5),
        )
        assert statuses(run, "[sizes]\ncaptured = [1, 4]\nuncaptured_calls = 0", []) == {
            "sizes.captured": ([1, 4], [1, 4], "pass"),
            "sizes.uncaptured_calls": (0, 2, "fail"),
        }

    def test_denied_and_allowed_findings(self) -> None:
        found = [
            Finding(code="fusion-missed", severity="warning", title="one", cause="", suggestion="",
                    id="F1", fingerprint="0123456789ab"),
            Finding(code="fusion-missed", severity="warning", title="two", cause="", suggestion="",
                    id="F2", fingerprint="ba9876543210"),
        ]  # fmt: skip
        toml = """[findings]
        deny = ["fusion-missed", "graph-break"]
        allow = [{ code = "fusion-missed", fingerprint = "0123456789ab", reason = "known" }]"""
        verdicts = judge(run_of(), found, from_tables(tomllib.loads(toml)))
        assert [(v.expectation, v.found, v.status, v.finding) for v in verdicts] == [
            ("findings.deny.fusion-missed", "fusion-missed ba9876543210", "fail", "F2"),
            ("findings.deny.graph-break", "none", "pass", None),
        ]
        assert failed(verdicts)
        allowed = toml.replace('fingerprint = "0123456789ab", ', "")
        assert not failed(judge(run_of(), found, from_tables(tomllib.loads(allowed))))


def test_markdown_has_no_markup_of_the_programs() -> None:
    run = run_of(*COMPILED, *applied(0, left=1))
    verdicts = judge(
        run, find_all(run), from_tables({"fusion": {"Norm": {"matched": 1}, "a|<b>": {"max": 0}}})
    )
    shown = render(run.summary, verdicts, "e.toml")
    assert shown.startswith("### ❌ compdbg: 1 failed of 2 expectations from e.toml\n")
    assert "| ❌ | fusion.Norm.matched | 1 | 0 |" in shown
    assert r"fusion.a\|&lt;b&gt;.matched" in shown
    assert "found eps=1e-06 (model.py:7)" in shown
