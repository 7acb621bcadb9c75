"""Holds a run against what is expected of it, rank by rank."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct

from compdbg.events import Where
from compdbg.expect.expectations import Allowed, Expectation, Expectations, Value
from compdbg.expect.measure import Measured, measure
from compdbg.findings.base import Finding
from compdbg.model.fusion_rows import Miss
from compdbg.model.run import Run
from compdbg.store.ranks import only_rank, ranks_of

Status = Literal["pass", "fail", "not-observed"]


Ranks = dict[int | None, Run]
"""A run by rank; by None where it has none, or one."""


class Verdict(Struct, frozen=True, kw_only=True):
    """One expectation and what came of it. `finding` is the id of the finding that says more."""

    expectation: str
    wanted: Value | str
    found: Value | str | None
    status: Status
    finding: str | None
    why: str
    near_miss: Miss | None
    where: Where | None


def judge(run: Run, findings: Sequence[Finding], expected: Expectations) -> list[Verdict]:
    """A verdict an expectation, in the order of the file."""
    ranks = ranks_of(run.log)
    by_rank: Ranks = {None: run}
    if len(ranks) > 1:
        by_rank = {rank: Run(only_rank(run.log, rank)) for rank in ranks}
    verdicts = [_count(expectation, by_rank, findings) for expectation in expected.counts]
    return verdicts + list(_denied(findings, expected))


def failed(verdicts: Sequence[Verdict]) -> bool:
    """Whether a gate stays shut: what could not be observed was not shown to hold."""
    return any(verdict.status != "pass" for verdict in verdicts)


def _count(expectation: Expectation, by_rank: Ranks, findings: Sequence[Finding]) -> Verdict:
    seen = {rank: measure(run, expectation.area, expectation.subject) for rank, run in by_rank.items()}
    status, told, found = _status(expectation, seen)
    finding = None if status == "pass" else _finding(told, findings)
    return Verdict(
        expectation=expectation.name,
        wanted=expectation.bound.wanted,
        found=found,
        status=status,
        finding=finding.id if finding is not None else None,
        why="" if status == "pass" else told.why,
        near_miss=None if status == "pass" else told.near_miss,
        where=None if status == "pass" else _where(told, finding),
    )


def _status(
    expectation: Expectation, seen: dict[int | None, Measured]
) -> tuple[Status, Measured, Value | str | None]:
    """The status, the rank's measure that says most about it, and what was found on which rank."""
    values = {rank: measured.value for rank, measured in seen.items()}
    first = next(iter(seen.values()))
    agreed = len({str(value) for value in values.values()}) == 1
    found = first.value if agreed else ", ".join(f"rank {r}: {_text(v)}" for r, v in values.items())
    bad = [m for m in seen.values() if m.value is not None and not expectation.bound.allows(m.value)]
    unknown = [m for m in seen.values() if m.value is None]
    if bad:
        return "fail", bad[0], found
    if unknown:
        return "not-observed", unknown[0], found
    if not agreed and expectation.area == "fusion":
        worst = min(seen.values(), key=lambda m: m.value if isinstance(m.value, int) else 0)
        return "fail", worst, found
    return "pass", first, found


def _text(value: Value | None) -> str:
    return "not observed" if value is None else str(value)


def _finding(measured: Measured, findings: Sequence[Finding]) -> Finding | None:
    for code in measured.codes:
        for finding in findings:
            if finding.code == code and (not measured.subject or _is_of(finding, measured.subject)):
                return finding
    return None


def _is_of(finding: Finding, subject: str) -> bool:
    return finding.data.get("pass") == subject or finding.subject.split("|")[0] == subject


def _where(measured: Measured, finding: Finding | None) -> Where | None:
    if measured.near_miss is not None and measured.near_miss.where is not None:
        return measured.near_miss.where
    return finding.where if finding is not None else None


def _denied(findings: Sequence[Finding], expected: Expectations) -> Iterator[Verdict]:
    """A verdict for each denied finding that is there, or one for a denied code that is not."""
    for denied in expected.deny:
        name = f"findings.deny.{denied}"
        meant = [f for f in findings if denied in (f.code, f.fingerprint, f.severity)]
        left = [f for f in meant if not any(_allows(allowed, f) for allowed in expected.allow)]
        for finding in left:
            yield _verdict(name, "none", finding)
        if not left:
            excused = f"{len(meant)} allowed" if meant else "none"
            yield Verdict(
                expectation=name,
                wanted="none",
                found=excused,
                status="pass",
                finding=None,
                why="",
                near_miss=None,
                where=None,
            )


def _verdict(name: str, wanted: str, finding: Finding) -> Verdict:
    return Verdict(
        expectation=name,
        wanted=wanted,
        found=f"{finding.code} {finding.fingerprint}",
        status="fail",
        finding=finding.id,
        why=finding.title,
        near_miss=None,
        where=finding.where,
    )


def _allows(allowed: Allowed, finding: Finding) -> bool:
    return (allowed.code is None or allowed.code == finding.code) and (
        allowed.fingerprint is None or allowed.fingerprint == finding.fingerprint
    )
