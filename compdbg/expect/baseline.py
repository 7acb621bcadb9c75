"""Expectations from a run that was good: no fewer matches, no more breaks, no new fault."""

from __future__ import annotations

from collections.abc import Sequence

from compdbg.compare.findings import unmatched
from compdbg.expect.expectations import Bound, Expectation, Expectations
from compdbg.expect.judge import Verdict, judge
from compdbg.expect.measure import measure
from compdbg.findings.base import Finding
from compdbg.model.run import Run
from compdbg.store.ranks import only_rank, ranks_of

_NEVER_MORE = (
    "compile.graph_breaks",
    "compile.max_recompiles",
    "compile.unique_pieces",
    "guards.violations",
    "sizes.uncaptured_calls",
)


def expected_of(baseline: Run) -> Expectations:
    """What a run must hold to be no worse than `baseline`; what that did not observe is not asked for."""
    ranks = ranks_of(baseline.log)
    one = Run(only_rank(baseline.log, ranks[0])) if len(ranks) > 1 else baseline
    counts = [
        Expectation(area="fusion", subject=whole.name, bound=Bound(least=whole.matched))
        for whole in one.fusion.passes
        if whole.custom and whole.matched
    ]
    for area in _NEVER_MORE:
        value = measure(one, area).value
        if isinstance(value, int) and (value or area != "compile.unique_pieces"):
            counts.append(Expectation(area=area, bound=Bound(most=value)))
    captured = measure(one, "sizes.captured").value
    if captured:
        counts.append(Expectation(area="sizes.captured", bound=Bound(exactly=captured)))
    return Expectations(counts=counts)


def judge_by(baseline: Run, known: Sequence[Finding], run: Run, findings: Sequence[Finding]) -> list[Verdict]:
    """A verdict an expectation from the baseline, and one for each error or warning that it had not."""
    verdicts = judge(run, findings, expected_of(baseline))
    new = [f for f in unmatched(findings, known) if f.severity != "info"]
    verdicts += [
        Verdict(
            expectation="findings.new",
            wanted="none",
            found=f"{finding.code} {finding.fingerprint}",
            status="fail",
            finding=finding.id,
            why=finding.title,
            near_miss=None,
            where=finding.where,
        )
        for finding in new
    ]
    if not new:
        verdicts.append(
            Verdict(
                expectation="findings.new",
                wanted="none",
                found="none",
                status="pass",
                finding=None,
                why="",
                near_miss=None,
                where=None,
            )
        )
    return verdicts
