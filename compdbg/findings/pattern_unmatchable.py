"""`pattern-unmatchable`: a registered pattern that its own traced graph does not satisfy."""

from __future__ import annotations

from collections.abc import Iterator

from compdbg.events import PatternProblem
from compdbg.findings.base import Cost, Finding
from compdbg.model.run import Run

_WHAT = {
    "no-self-match": "can't match its own traced graph",
    "unreachable-output": "has an output that its anchor can't reach",
    "lost-nodes": "lost ops when it was traced",
}
_ADVICE = {
    "no-self-match": "Write it with the ops that graphs hold at that stage: post-grad, `reshape` for `view`.",
    "unreachable-output": "Let all outputs share an op with the first one, or register a pattern for each.",
    "lost-nodes": "Return what these ops compute (or write) from the search function.",
}


def pattern_unmatchable(run: Run) -> Iterator[Finding]:
    seen: set[tuple[str, str, str]] = set()
    for id, problem in run.fusion.problems:
        key = (problem.pass_name, problem.pattern, problem.problem)
        if key not in seen:
            seen.add(key)
            yield _finding(run, id, problem)


def _finding(run: Run, id: str, problem: PatternProblem) -> Finding:
    own = [
        attempt.id
        for site in run.fusion.sites
        for attempt in site.attempts
        if attempt.event.pass_name == problem.pass_name and attempt.event.pattern == problem.pattern
    ]
    return Finding(
        code="pattern-unmatchable",
        severity="warning",
        title=f"Pattern {problem.pattern} of {problem.pass_name} {_WHAT[problem.problem]}: {problem.detail}",
        cause=f"Matched against the graph it was traced from, the pattern fails: {problem.detail}."
        if problem.problem == "no-self-match"
        else f"In the graph it was traced from, {problem.detail}.",
        suggestion=_ADVICE[problem.problem],
        where=problem.where,
        evidence=[id],
        cost=Cost(results="same"),
        data={"pass": problem.pass_name, "pattern": problem.pattern, "problem": problem.problem},
        subject=f"{problem.pass_name}|{problem.pattern}|{problem.problem}",
        explains=own,
    )
