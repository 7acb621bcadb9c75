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
    what = _WHAT.get(problem.problem, problem.problem)  # a later version may know other problems
    return Finding(
        code="pattern-unmatchable",
        severity="warning",
        title=f"Pattern {problem.pattern} of {problem.pass_name} {what}: {problem.detail}",
        cause=_cause(problem),
        suggestion=_ADVICE.get(
            problem.problem, "Compare the graph it was traced to with what graphs hold at that stage."
        ),
        where=problem.where,
        evidence=[id],
        cost=Cost(results="same"),
        data={"pass": problem.pass_name, "pattern": problem.pattern, "problem": problem.problem},
        subject=f"{problem.pass_name}|{problem.pattern}|{problem.problem}",
        explains=own,
    )


def _cause(problem: PatternProblem) -> str:
    if problem.problem != "no-self-match":
        return f"In the graph that the pattern was traced to, {problem.detail}."
    text = f"Matched against the graph that it was traced to, the pattern fails: {problem.detail}."
    if "view" in problem.detail and "reshape" in problem.detail:
        text += " Inductor turns view into reshape before its post-grad passes, where this one runs."
    return text
