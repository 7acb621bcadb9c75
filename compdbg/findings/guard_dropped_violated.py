"""`guard-dropped-violated`: a guard that was dropped is false on a later call."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from compdbg.findings.base import Cost, Finding, Results, Severity
from compdbg.findings.dim_words import title_of
from compdbg.findings.words import at, counted, sentence
from compdbg.model.fixed_sizes import fixed_sizes
from compdbg.model.guards import Entry, Violated
from compdbg.model.run import Run

_SEVERITY: dict[str, Severity] = {"differs": "error", "unknown": "warning", "same": "info"}
_RESULTS: dict[str, Results] = {"differs": "wrong", "same": "same"}
_SUGGESTIONS = {
    "shape": "Keep this guard (a guard_filter_fn that returns True for SHAPE_ENV and TENSOR_MATCH), or "
    "compile one function for each side of the condition, so that no size decides what was compiled.",
    "constant": "Keep this guard (a guard_filter_fn that returns True for {name}), or make {name} a tensor "
    "argument, which the compiled code reads on every call.",
    "type": "Keep this guard, or compile another function for the other type: what was compiled serves one.",
    "identity": "Keep this guard, or pass what was passed when it was compiled; a copy of a tensor keeps "
    "inputs apart.",
    "global-state": "Make the first call, which compiles, in the state of the later ones, or keep the guard.",
    "other": "Keep this guard: a guard_filter_fn that returns True for {name}.",
}
_ENGINE_SUGGESTIONS = {
    "shape": "Compile one method for each side of the condition, so that no size decides what was compiled; "
    "dynamic_shapes_config.evaluate_guards makes a call that breaks it an error.",
    "constant": "Make {name} a tensor argument, which the compiled code reads on every call, or make a new "
    "instance of the model for the new value.",
    "other": "Have {name} as it was on the first call, or make a new instance of the model: that is "
    "compiled anew.",
}
"""Where an engine drops all guards of a model, there is no filter that its user could change."""
_ENGINE = re.compile(r"^compdbg\.compiler|NoGuardsWrapper\b")
_ENDS = {
    "differs": "and the result differs from eager",
    "unknown": "and the result may differ from eager",
    "same": "which changes no result",
}
_OURS, _OURS_FILE = "compdbg.compiler", re.compile(r"/compdbg/compiler/wrapper\.py:\d+\)$")
_PLACE = re.compile(r"\((?:.*/)?(?P<place>[^/]+:\d+)\)$")


def guard_dropped_violated(run: Run) -> Iterator[Finding]:
    """One finding a cause: guards that are false for one reason, in one function."""
    for violated in run.violated:
        yield _with_fixed_size(run, violated, _finding(violated))


def _with_fixed_size(run: Run, violated: Violated, finding: Finding) -> Finding:
    """A size that was asked to vary, became a number and was guarded for: wrong results name the cause."""
    fixed = fixed_sizes(violated, run.dimensions)
    if not fixed or violated.effect == "same":
        return finding
    where = fixed[0].fixed.where if fixed[0].fixed else None
    return msgspec.structs.replace(
        finding,
        cause=f"{finding.cause} {sentence(title_of(fixed, violated.entry.name, where))}",
        evidence=[*finding.evidence, *dict.fromkeys(event for each in fixed for event in each.events)],
    )


def _finding(violated: Violated) -> Finding:
    first, effect = violated.first, violated.effect
    advice = _advice(violated)
    return Finding(
        code="guard-dropped-violated",
        severity=_SEVERITY.get(effect, "warning"),
        title=f"{named(violated.entry)} was compiled for {_wanted(violated)}; on call {first.call} "
        f"{_seen(violated)}, {_ENDS.get(effect, _ENDS['unknown'])}",
        cause=_cause(violated),
        suggestion="Nothing: what it was dropped for holds." if effect == "same" else advice,
        where=first.where,
        evidence=[*violated.events, violated.entry.event],
        cost=Cost(results=_RESULTS.get(effect)),
        data={
            "kind": first.kind,
            "effect": effect,
            "violations": violated.violations,
            "call": first.call,
            "wanted": first.wanted,
            "seen": first.seen,
            "expr": first.expr,
            "guards": first.guards,
            "also": first.also,
            "calls": violated.calls,
            "checked": violated.checked,
            "dropped_by": violated.entry.dropped_by,
        },
        subject=f"{first.kind} {first.name}",
    )


def _advice(violated: Violated) -> str:
    engine = _ENGINE.search(violated.entry.dropped_by or "")
    known = {**_SUGGESTIONS, **_ENGINE_SUGGESTIONS} if engine else _SUGGESTIONS
    return known.get(violated.first.kind, known["other"]).format(name=f"`{violated.first.name}`")


def named(entry: Entry) -> str:
    """The user's function; a container's forward, which torch wraps, has no name of its own."""
    return "The module" if "/torch/_dynamo/" in entry.function else f"`{entry.name}`"


def dropper(entry: Entry) -> str:
    """`drop_all (model.py:4)`."""
    by = entry.dropped_by or "a filter"
    return _OURS if _OURS_FILE.search(by) else _PLACE.sub(lambda found: f"({found['place']})", by)


def _is_whole(violated: Violated) -> bool:
    """`x.shape[0] >= 2` and `a and b are one tensor` say by themselves what they are about."""
    first = violated.first
    return f"{first.name.split(',')[0]} " in f"{first.seen} " and first.name != first.seen


def _wanted(violated: Violated) -> str:
    first = violated.first
    return first.wanted if _is_whole(violated) else f"{first.name} = {first.wanted}"


def _seen(violated: Violated) -> str:
    first = violated.first
    return first.seen if _is_whole(violated) else f"it is {first.seen}"


def _cause(violated: Violated) -> str:
    first = violated.first
    place = f"{at(first.where)}: " if first.where is not None else ""
    more = f", and {first.guards - 1} more that are false with it" if first.guards > 1 else ""
    return (
        f"{place}{sentence(first.why)} The guard `{first.expr}`{more} would have made torch compile again; "
        f"{dropper(violated.entry)} dropped it. It was false on {_share(violated)}."
    )


def _share(violated: Violated) -> str:
    """`1 call of 2`; of a frame that is audited by sample, of those that were."""
    calls = counted(violated.violations, "call")
    if not violated.calls:
        return calls
    later = max(0, violated.calls - 1)
    if violated.checked >= later:
        return f"{calls} of {later} after the compile"
    return f"{calls} of the {violated.checked} that were audited, of {later}"
