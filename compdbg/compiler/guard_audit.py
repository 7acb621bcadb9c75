"""The audit of dropped guards that torch does not have, from data.

On a warm start nothing was traced, and these are all guards: constants, containers, types and sizes
that were kept with the entry are checked against each audited call; what could not be kept is
counted, and said in the event that lists the guards. Of a model that was traced here, they are those
on sizes that compiling its pieces added.
"""

from __future__ import annotations

import contextlib
import threading
import time
import weakref
from collections import Counter
from collections.abc import Mapping
from types import CodeType
from typing import Any

from compdbg import probe
from compdbg.compiler.guard_check import Checker, Violation
from compdbg.compiler.guard_data import Condition, GuardRecord, spoken
from compdbg.events import Guard, GuardAudit, Guards, GuardViolation
from compdbg.events.guards import LOADED

PIECES = "pieces"
"""Stands for a compile id, of guards that compiling the pieces of a model added."""
FIRST_CALLS = 16
"""All of these are audited; then each power of two, and the first at each new size."""


class DataAudit:
    """The audit of one model."""

    def __init__(
        self,
        record: GuardRecord,
        code: CodeType,
        globals_: Mapping[str, Any],
        *,
        compile_id: str,
        every_call: bool = False,
    ) -> None:
        self.frame = f"{code.co_filename}:{code.co_firstlineno}:{code.co_name}"
        self._checker = Checker(record.conditions, globals_)
        self._compile_id = compile_id
        self._every_call = every_call
        self._calls = 0
        self._checked = 0
        self._seconds = 0.0
        self._sizes: set[Any] = set()
        self._violated: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._recorder = probe.sink()
        self._parent = self._announce(record)
        _audits.add(self)

    def __call__(self, arguments: Mapping[str, Any]) -> None:
        """Audit a call with these arguments, if it is one that is audited."""
        if probe.sink() is not self._recorder:
            return  # that recording has ended
        self._calls += 1
        calls = self._calls
        sizes = _sizes(arguments)
        if self._every_call or calls <= FIRST_CALLS or calls & (calls - 1) == 0 or sizes not in self._sizes:
            self._sizes.add(sizes)
            self._audit(arguments, calls)
        if str(calls).strip("0") == "1":
            self.tally()

    def _audit(self, arguments: Mapping[str, Any], call: int) -> None:
        started = time.perf_counter()
        with self._lock:
            found = self._checker.violations(arguments)
            self._checked += 1
            for violation in found:
                text = violation.condition.text
                self._violated[text] += 1
                if self._violated[text] == 1:
                    probe.emit(self._event(violation, call), parent=self._parent)
            self._seconds += time.perf_counter() - started

    def _event(self, violation: Violation, call: int) -> GuardViolation:
        condition = violation.condition
        effect, why = _judged(condition, violation.seen)
        return GuardViolation(
            frame=self.frame,
            compile_id=self._compile_id,
            call=call,
            expr=condition.text,
            type=condition.guard,
            source=condition.source,
            wanted=condition.spoken if condition.operator == "shape" else str(condition.value),
            seen=violation.seen,
            guard_kind=condition.kind,
            effect=effect,
            why=why,
            where=condition.where,
            cause=condition.source,
            name=spoken(condition.source),
        )

    def _announce(self, record: GuardRecord) -> int | None:
        missing = record.left_out | Counter(c.guard for c in self._checker.cannot_follow)
        known = len(self._checker.conditions)
        lacking = ", ".join(f"{count} {kind}" for kind, count in sorted(missing.items()))
        loaded = f"loaded from the cache: {known} guards are known as data"
        reason = loaded if self._compile_id == LOADED else "added while pieces were compiled"
        reason += f"; not audited: {lacking}" if lacking else ""
        return probe.emit(
            Guards(
                frame=self.frame,
                compile_id=self._compile_id,
                guards=[_guard(condition) for condition in record.conditions],
                drop_requested=True,
                audit="on" if self._every_call else "sampled",
                audit_reason=reason,
            )
        )

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.tally()

    def tally(self) -> None:
        """Say how many calls there were, how many were checked, and what was found."""
        if probe.sink() is not self._recorder:
            return
        probe.emit(
            GuardAudit(
                frame=self.frame,
                compile_id=self._compile_id,
                calls=self._calls,
                checked=self._checked,
                violations=dict(self._violated),
                causes=_by_cause(self._violated, self._checker.conditions),
                seconds=self._seconds,
            ),
            parent=self._parent,
        )


_audits: weakref.WeakSet[DataAudit] = weakref.WeakSet()


def _tally_all() -> None:
    for audit in list(_audits):
        audit.tally()


probe.at_end(_tally_all)


def _guard(condition: Condition) -> Guard:
    return Guard(
        type=condition.guard,
        expr=condition.text,
        source=condition.source,
        where=condition.where,
        kept=False,
        layer=condition.layer,
        dropped_by="compdbg.compiler",
        value=condition.value if isinstance(condition.value, (str, int)) else None,
    )


def _judged(condition: Condition, seen: str) -> tuple[str, str]:
    """Whether the violation changes results, as far as data can tell."""
    if condition.layer != "dynamo":
        return "unknown", f"{condition.layer} compiled a piece for other sizes"
    if condition.operator == "tensor" and seen.startswith("requires_grad"):
        return "same", "the graph was compiled for inference"
    if condition.operator in ("type", "is"):
        return "unknown", "the compiled code may rely on another type or function"
    return "differs", "the value of the trace is part of the compiled code"


def _by_cause(violated: Counter[str], conditions: list[Condition]) -> dict[str, int]:
    sources = {condition.text: condition.source for condition in conditions}
    found: Counter[str] = Counter()
    for text, count in violated.items():
        found[sources[text]] = max(found[sources[text]], count)
    return dict(found)


def _sizes(arguments: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(value.shape for value in arguments.values() if hasattr(value, "shape"))
