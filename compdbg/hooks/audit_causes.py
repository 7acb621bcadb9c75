"""From guards that are false to causes: one attribute, size or setting, however many guards see it."""

from __future__ import annotations

from typing import NamedTuple

from compdbg import probe
from compdbg.events import GuardViolation
from compdbg.hooks.audit_judgement import Case, Expected, Group, Judge, Judgement
from compdbg.hooks.audit_objects import (
    judge_absent,
    judge_access,
    judge_alive,
    judge_constant,
    judge_contained,
    judge_identity,
    judge_keys,
    judge_lambda,
    judge_length,
    judge_type,
)
from compdbg.hooks.audit_process import judge_state
from compdbg.hooks.audit_sizes import judge_alias, judge_duplicate, judge_shape
from compdbg.hooks.audit_tensors import judge_marks, judge_tensor
from compdbg.hooks.audit_watches import Scope, Watch
from compdbg.hooks.compile_facts import Facts
from compdbg.hooks.frame_calls import Tally, calls_of
from compdbg.hooks.userline import is_user_file

_JUDGES: dict[str, Judge] = {
    "ACCESS": judge_access,
    "COMPLEX_IS_NAN": judge_constant,
    "DICT_CONTAINS": judge_contained,
    "DICT_LENGTH": judge_length,
    "DICT_VERSION": judge_contained,
    "DIMENSION_DYNAMIC_MARKING_GUARD": judge_marks,
    "DUPLICATE": judge_duplicate,
    "EQUALS_MATCH": judge_constant,
    "FAKE_SCRIPT_TYPE_MATCH": judge_type,
    "FALSE_MATCH": judge_constant,
    "FLOAT_IS_NAN": judge_constant,
    "ID_MATCH": judge_identity,
    "KEYS": judge_keys,
    "LAMBDA_GUARD": judge_lambda,
    "LENGTH_CHECK": judge_length,
    "MAPPING_KEYS_MATCH": judge_contained,
    "NONE_MATCH": judge_constant,
    "NOT_NONE": judge_alive,
    "NO_HASATTR": judge_absent,
    "NO_TENSOR_ALIASING": judge_alias,
    "RANGE_ITERATOR_MATCH": judge_length,
    "SET_CONTAINS": judge_contained,
    "SHAPE": judge_shape,
    "TENSOR_MATCH": judge_tensor,
    "TRUE_MATCH": judge_constant,
    "TUPLE_ITERATOR_LEN": judge_length,
    "TYPE_MATCH": judge_type,
}
"""By the class of torch's leaf guard; what is not here is state of the process."""

_STRUCTURE = frozenset(
    ("ACCESS", "DICT_LENGTH", "FAKE_SCRIPT_TYPE_MATCH", "ID_MATCH", "KEYS", "LENGTH_CHECK",
     "MAPPING_KEYS_MATCH", "TENSOR_MATCH", "TYPE_MATCH")
)  # fmt: skip
"""Where such a guard is false, those on what is below its source follow from it."""

_WORSE = {"same": 0, "unknown": 1, "differs": 2}
_LASTING = frozenset(("duplicate", "keys", "marks", "owner", "sizes", "source", "state", "strides"))
"""Groups that join guards also over several calls; the others tell what changed together."""
_MOST_EVENTS = 12
_MOST_NAMED = 20


class Cause:
    """Guards of one entry that are false for one reason."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.guards: dict[str, None] = {}
        self.told: tuple[str, str, int] | None = None
        self.events = 0


class Lead(NamedTuple):
    """The guard that says best what a cause is, on one call."""

    watch: Watch
    judgement: Judgement

    def says_more_than(self, other: Lead) -> bool:
        return self._weight() > other._weight()

    def _weight(self) -> tuple[int, bool]:
        where = self.judgement.where
        return _WORSE[self.judgement.effect], where is not None and is_user_file(where.file)


class Causes:
    """All causes of one entry, and how they are told."""

    def __init__(self, tally: Tally, facts: Facts, expected: dict[str, Expected]) -> None:
        self._tally = tally
        self._facts = facts
        self._expected = expected
        self._lasting: dict[tuple[Group, bool], Cause] = {}
        self._keys: set[str] = set()

    def add(self, violated: list[Watch], scope: Scope) -> None:
        """The guards that are false on this call."""
        leads: dict[Cause, Lead] = {}
        groups: dict[tuple[Group, bool], Cause] = {}
        tops: dict[str, Cause] = {}
        for watch in sorted(violated, key=_order):
            self._tally.violations[watch.expr] = self._tally.violations.get(watch.expr, 0) + 1
            for judgement in self._judge(watch, scope):
                cause = self._cause_of(watch, judgement, groups, tops)
                cause.guards[watch.expr] = None
                lead = Lead(watch, judgement)
                if cause not in leads or lead.says_more_than(leads[cause]):
                    leads[cause] = lead
        for cause, lead in leads.items():
            count = self._tally.causes[cause.key] = self._tally.causes.get(cause.key, 0) + 1
            self._tell(cause, lead)
            if count & (count - 1) == 0:
                self._tally.tell()

    def _judge(self, watch: Watch, scope: Scope) -> list[Judgement]:
        """What is wrong with a guard; a thread count that stays as it is need not be judged on each call."""
        state = watch.same_as_before(scope)
        if state is None or watch.judged[0] != state:
            judge = _JUDGES.get(watch.leaf, judge_state)
            watch.judged = (state, judge(Case(watch, scope, self._facts, self._expected)))
        judgements: list[Judgement] = watch.judged[1]
        return judgements

    def _cause_of(
        self,
        watch: Watch,
        judgement: Judgement,
        groups: dict[tuple[Group, bool], Cause],
        tops: dict[str, Cause],
    ) -> Cause:
        """The cause that a guard has already, shares with others of this call, or gets.

        What is harmless never shares a cause with what is not: a cause counts wrong calls, or none.
        """
        harmless = judgement.effect == "same"
        facet = (judgement.facet, harmless)
        keys: list[tuple[Group, bool]] = [(group, harmless) for group in judgement.groups]
        cause = (
            watch.facets.get(facet)
            or next((c for top, c in tops.items() if _is_below(_text_of(watch), top)), None)
            or next((groups[key] for key in keys if key in groups), None)
            or next((self._lasting[key] for key in keys if key in self._lasting), None)
            or Cause(self._new_key(judgement.name or watch.expr))
        )
        watch.facets[facet] = cause
        for key in keys:
            groups.setdefault(key, cause)
            if key[0][0] in _LASTING:
                self._lasting.setdefault(key, cause)
        if watch.leaf in _STRUCTURE and (watch.leaf != "TENSOR_MATCH" or judgement.facet == "type"):
            tops.setdefault(watch.source, cause)
        return cause

    def _new_key(self, name: str) -> str:
        key, n = name, 2
        while key in self._keys:
            key, n = f"{name} #{n}", n + 1
        self._keys.add(key)
        return key

    def _tell(self, cause: Cause, lead: Lead) -> None:
        """An event the first time, and a few more when the values change."""
        watch, judgement = lead
        now = (judgement.effect, judgement.seen, len(cause.guards))
        if now == cause.told or (cause.events >= _MOST_EVENTS and now[0] == (cause.told or now)[0]):
            return
        cause.told = now
        cause.events += 1
        others = [expr for expr in cause.guards if expr != watch.expr]
        probe.emit(
            GuardViolation(
                frame=self._tally.frame,
                compile_id=self._tally.compile_id,
                call=calls_of(self._tally.code),
                expr=watch.expr,
                type=watch.record.type if watch.record is not None else watch.leaf,
                source=watch.source,
                wanted=judgement.wanted,
                seen=judgement.seen,
                guard_kind=judgement.kind,
                effect=judgement.effect,
                why=judgement.why,
                where=judgement.where,
                cause=cause.key,
                name=judgement.name,
                also=others[:_MOST_NAMED],
                guards=len(cause.guards),
            ),
            self._tally.guards_event,
        )


def _order(watch: Watch) -> tuple[bool, bool, int]:
    """Those that have a cause first, then what is above before what is below it."""
    return not watch.facets, watch.leaf == "DUPLICATE", len(watch.source)


def _text_of(watch: Watch) -> str:
    """What a guard goes through: `type(L['o']) is G['A']` goes through `L['o']`."""
    return watch.expr if watch.leaf == "DUPLICATE" else watch.source


def _is_below(source: str, top: str) -> bool:
    """Whether a source goes through another: `L['self'].a.b` through `L['self'].a`."""
    at = source.find(top)
    return at >= 0 and source[at + len(top) : at + len(top) + 1] in (".", "[", ")") and source != top
