"""Effects under their roots, logs that are damaged, and values that only a later version knows."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from compdbg.doctor.exercise import judge
from compdbg.events import (
    CudagraphSkip,
    Event,
    GuardAudit,
    Guards,
    GuardViolation,
    Header,
    HookState,
    PatternProblem,
    Piece,
    ReplacementWrong,
    Span,
    TorchLoaded,
)
from compdbg.findings.base import Finding
from compdbg.findings.collect import _without_effects, find_all
from compdbg.model.run import Run
from compdbg.store.reader import Log, Record


def finding(code: str, *evidence: str, explains: tuple[str, ...] = ()) -> Finding:
    return Finding(
        code=code, severity="error", title=code, cause="", suggestion="", evidence=list(evidence),
        explains=list(explains),
    )  # fmt: skip


def log_of(*events: Event, parents: dict[int, int] | None = None) -> Log:
    known = parents or {}
    records = [
        Record(Header(process="a", seq=n, time=float(n), parent=known.get(n)), event)
        for n, event in enumerate(events, 1)
    ]
    return Log(Path("r"), {}, records)


@pytest.mark.parametrize(
    ("root", "effect", "stays"),
    [
        (finding("op-schema-wrong", "a:1", "a:9"), finding("diverges", "a:9"), False),
        (finding("op-schema-wrong", "a:1"), finding("diverges", "a:9"), True),
        (finding("op-schema-wrong", "a:1", "a:9"), finding("diverges", "a:9", "a:10"), True),
        (finding("dim-specialised", "a:1", explains=("a:9",)), finding("recompiles", "a:9"), False),
        (finding("recompiles", "a:1", "a:9"), finding("dim-specialised", "a:9"), True),
        (finding("op-schema-wrong", "a:1"), finding("diverges"), True),
    ],
)
def test_an_effect_is_dropped_only_if_its_root_has_all_its_evidence(
    root: Finding, effect: Finding, stays: bool
) -> None:
    assert _without_effects([root, effect]) == [root, effect][: 1 + stays]


def test_thousands_of_findings_are_compared_with_their_like_only() -> None:
    found = [finding("capture-failed", f"a:{n}") for n in range(6000)]
    began = time.process_time()
    assert len(_without_effects(found)) == 6000
    assert time.process_time() - began < 2


@pytest.mark.parametrize("parents", [{1: 1, 2: 1}, {1: 2, 2: 1}, {1: 3, 2: 3, 3: 1}])
def test_parents_that_lead_in_a_circle_end(parents: dict[int, int]) -> None:
    spans = Span(name="x", duration_s=1.0), Span(name="y", duration_s=1.0)
    log = log_of(TorchLoaded(torch="2.13"), *spans, parents=parents)
    assert list(find_all(Run(log))) == []


def test_values_of_a_later_version_are_told_as_they_are() -> None:
    log = log_of(
        ReplacementWrong(
            graph="0/0",
            pass_id="p1",
            pass_name="P",
            pattern="p",
            output="y",
            fault="layout",
            wanted="a",
            found="b",
        ),
        PatternProblem(pass_id="p1", pass_name="P", pattern="q", problem="new-problem", detail="d"),
        Guards(frame="m.py:1:f", compile_id="0/0", guards=[]),
        GuardViolation(frame="m.py:1:f", compile_id="0/0", call=2, expr="x", type="T", effect="perhaps"),
        GuardAudit(frame="m.py:1:f", compile_id="0/0", calls=2, checked=2),
    )
    assert {f.code for f in find_all(Run(log))} >= {"fusion-wrong", "pattern-unmatchable"}


def test_a_piece_of_an_older_run_is_not_said_to_be_empty() -> None:
    """Runs from before operators were counted do not tell what a piece computes."""
    log = log_of(Piece(graph="0/0", piece="submod_0", piece_kind="compiled", ops=4))
    assert [f.code for f in find_all(Run(log))] == []


def test_cuda_graphs_are_proved_where_there_is_a_gpu() -> None:
    def state(device: str, *events: Event) -> str:
        log = log_of(
            TorchLoaded(torch="2.13", device=device), HookState(hook="cudagraphs", state="works"), *events
        )
        return next(check.state for check in judge(log) if check.check == "hook cudagraphs")

    assert state("cpu") == "works"
    assert state("cuda") == "degraded"
    assert state("cuda", CudagraphSkip(reason="mutated inputs")) == "works"
