"""Near misses: a failed match run again under a context that notes each step, and what stopped it.

Matching only reads the graph, so running it again changes nothing: the context is our own, no
counter is torch's, and no mutation region is computed here.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from typing import Any

from compdbg.events import Reason
from compdbg.hooks.pattern_matcher_kinds import is_cast, is_trivial
from compdbg.hooks.pattern_matcher_reasons import Step, Stop, explain
from compdbg.hooks.pattern_matcher_sites import expressions
from compdbg.hooks.pattern_matcher_words import is_node, is_op


@functools.lru_cache(maxsize=2)
def traced_context(matcher: Any) -> type[Any]:
    """A `MatchContext` that notes its steps."""

    class Traced(matcher.MatchContext):  # type: ignore[misc]
        def __init__(self, outputs: list[Any], graph: Any) -> None:
            super().__init__(outputs, graph=graph)
            self.steps: list[Step] = []
            self.depth = 0

        def match(self, pattern: Any, node: Any) -> Any:
            step = Step(pattern, node, self.depth, self.pattern_to_node.get(pattern))
            self.steps.append(step)
            self.depth += 1
            try:
                step.result = super().match(pattern, node)
            except matcher.FailedMatch as failed:
                step.result = failed
                raise
            finally:
                self.depth -= 1
            return step.result

    return Traced


def find_stop(matcher: Any, pattern: Any, node: Any) -> Stop | None:
    """Match once more; where it stopped, or None if it matches."""
    outputs = getattr(pattern, "outputs", None) or [pattern]
    context = traced_context(matcher)(outputs, node.graph)
    try:
        if context.match(pattern, node):
            return None
    except matcher.FailedMatch:
        pass
    path = _failing_path(context.steps)
    stop = explain(path, context.pattern_to_node)
    entered = path[:-1] if is_op(path[-1].pattern) else path
    done = [s for s in context.steps if s.result]
    matched = (s.node for s in [*entered, *done] if is_op(s.pattern) and is_node(s.node))
    stop.matched = list(dict.fromkeys(matched))
    return stop


def _failing_path(steps: list[Step]) -> list[Step]:
    """From the whole pattern to the innermost sub-pattern that failed; of several, what got furthest."""
    path, here = [steps[0]], 0
    while True:
        below = _below(steps, here)
        failed = [i for i in below if steps[i].depth == steps[here].depth + 1 and not steps[i].result]
        if not failed:
            return path
        here = max(failed, key=lambda i: (sum(bool(steps[j].result) for j in _below(steps, i)), i))
        path.append(steps[here])


def _below(steps: list[Step], at: int) -> list[int]:
    depth = steps[at].depth
    return list(itertools.takewhile(lambda i: steps[i].depth > depth, range(at + 1, len(steps))))


def second_reason(stop: Stop, loose: Any, specific: Any, dtypes_differ: bool) -> Reason:
    """The code of a failure at the second stage: its own reason, unless the retraced ops explain it."""
    differing = differing_ops(loose, specific)
    if not differing:
        return "retrace-mismatch" if stop.reason in ("target-mismatch", "other") else stop.reason
    if stop.reason in ("arg-mismatch", "kwarg-mismatch"):
        return stop.reason
    if all(map(is_cast, differing)):
        return "dtype-mismatch"
    if all(map(is_trivial, differing)) and not any(map(is_cast, differing)):
        return "shape-mismatch"
    return "dtype-mismatch" if dtypes_differ else "shape-mismatch"


def differing_ops(loose: Any, specific: Any) -> Counter[Any]:
    """Ops that only one has of a pattern as registered and the same, traced at the real inputs."""
    first, second = _tally(loose), _tally(specific)
    return (first - second) + (second - first)


def _tally(pattern: Any) -> Counter[Any]:
    return Counter(e.fns[0] for e in expressions(pattern) if is_op(e))
