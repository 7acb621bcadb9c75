"""Checks that a run was asked for: what they came to is said, and that one compared nothing above all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from compdbg.events import (
    CacheLookup,
    Compared,
    Decorated,
    Event,
    Header,
    OpsChecked,
    PatternPass,
    ReplacementsChecked,
    TorchLoaded,
)
from compdbg.model.run import Run
from compdbg.store.reader import Log, Record
from compdbg.views.asked import checks
from compdbg.views.base import Source
from compdbg.views.summary import facts, verdict

HIT, FX = (
    CacheLookup(layer="aot", result="hit", graph="M"),
    CacheLookup(layer="fx", result="hit", graph="0/0"),
)
TWIN = CacheLookup(layer="twin", result="hit", graph="M piece_2")
OURS = Decorated(target="Model.forward")
PASS = PatternPass(pass_id="p1", pass_name="Fusion", graph="M", custom=True, attempted=3, matched=0)


def replacements(compared: int, values: int) -> ReplacementsChecked:
    return ReplacementsChecked(pass_id="p1", graph="M", compared=compared, values_compared=values)


def run_of(options: dict[str, Any], *events: Event) -> Run:
    records = [Record(Header(process="a", seq=n, time=float(n)), e) for n, e in enumerate(events, 1)]
    return Run(Log(Path("r"), {"options": options, "complete": True, "exit_status": 0}, records))


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ([OURS, PASS, replacements(2, 1), replacements(4, 2)], "compared 3 replacements"),
        ([OURS, PASS, replacements(1, 1)], "compared 1 replacement"),
        (
            [OURS, HIT],
            "compared nothing: nothing is replaced where a cache serves; "
            "compile anew with COMPDBG_DISABLE_COMPILE_CACHE=1",
        ),
        (
            [HIT, FX],
            "compared nothing: nothing is replaced where a cache serves; "
            "compile anew with TORCHINDUCTOR_FORCE_DISABLE_CACHES=1",
        ),
        (
            [TorchLoaded(torch="2.13.0", vllm="0.33.0"), OURS, HIT],
            "compared nothing: nothing is replaced where a cache serves; "
            "compile anew with VLLM_DISABLE_COMPILE_CACHE=1 TORCHINDUCTOR_FORCE_DISABLE_CACHES=1",
        ),
        (
            [OURS, HIT, replacements(1, 1)],
            "compared 1 replacement: not those that a cache served; "
            "compile anew with COMPDBG_DISABLE_COMPILE_CACHE=1",
        ),
        ([PASS, TWIN], "compared nothing: no pattern matched"),
        (
            [PASS, replacements(2, 0)],
            "compared nothing: none of the replacements could be run on random inputs",
        ),
        ([], "compared nothing: no pass that replaces anything ran"),
    ],
)
def test_replacements(events: list[Event], said: str) -> None:
    run = run_of({"check_replacements": True}, *events)
    assert checks(run) == [f"--check-replacements {said}"]
    vain = ", but --check-replacements compared nothing" if "nothing:" in said else ""
    assert verdict(Source(run, [])) == f"No fault was found in this run{vain}."
    assert ("checked", f"--check-replacements {said}") in facts(Source(run, []))


@pytest.mark.parametrize(
    ("options", "events", "said"),
    [
        (
            {"check_ops": True},
            [OpsChecked(calls={"a::b": 5, "a::c": 1}, checked={"a::b": 2, "a::c": 1}, faked={})],
            "--check-ops compared 3 calls of custom operators",
        ),
        ({"check_ops": True}, [], "--check-ops compared nothing: no custom operator was called"),
        (
            {"compare": "eager"},
            [Compared(graph="0/0", call=1, check="equal")],
            "--compare eager compared 1 call of compiled graphs",
        ),
        (
            {"compare": "eager"},
            [Compared(graph="0/0", call=1, check="not-checked", reason="the graph talks to other ranks")],
            "--compare eager compared nothing: the graph talks to other ranks",
        ),
        ({"compare": "eager"}, [], "--compare eager compared nothing: no compiled graph was called"),
    ],
)
def test_the_other_checks(options: dict[str, Any], events: list[Event], said: str) -> None:
    assert checks(run_of(options, *events)) == [said]


@pytest.mark.parametrize("options", [{}, {"check_replacements": False, "compare": ""}, None])
def test_what_was_not_asked_for_is_not_missed(options: Any) -> None:
    run = run_of(options, OURS, HIT)
    assert checks(run) == []
    assert verdict(Source(run, [])) == "No fault was found in this run."


def test_two_in_vain() -> None:
    run = run_of({"check_replacements": True, "check_ops": True})
    wanted = "No fault was found in this run, but --check-replacements and --check-ops compared nothing."
    assert verdict(Source(run, [])) == wanted
