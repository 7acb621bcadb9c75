"""The audit of dropped guards: on later calls, are they still true?

It rides on an always-true guard at the root of the entry that torch keeps. torch hands that guard
the real locals of each call that the entry serves, whatever was compiled: a function, a module, a
bound method, a resumed frame. Nothing here raises, changes a result or keeps what a call was given.
"""

from __future__ import annotations

import functools
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from compdbg.hooks.audit_budget import Budget
from compdbg.hooks.audit_causes import Causes
from compdbg.hooks.audit_state import State
from compdbg.hooks.audit_tree import Tree
from compdbg.hooks.audit_watches import Scope, Watch
from compdbg.hooks.base import report_error
from compdbg.hooks.frame_calls import Tally
from compdbg.hooks.interrupts import deliver_again

_LONGEST_REST = 1 << 16


class Audit:
    """The dropped guards of one compiled entry."""

    def __init__(
        self,
        tree: Tree | None,
        state: State | None,
        watches: list[Watch],
        causes: Causes,
        tally: Tally,
        global_scope: dict[str, Any],
    ) -> None:
        self._tree = tree
        self._state = state
        self._watches = watches
        self._causes = causes
        self._tally = tally
        self._globals = global_scope
        self._rest = 0
        """Calls to let pass before torch's tree is asked again: it was false, and no guard was found so."""
        self._resting = 0
        self._busy = threading.Lock()

    def check(self, f_locals: dict[str, Any]) -> None:
        """Check all dropped guards once."""
        if not self._busy.acquire(blocking=False):
            return
        try:
            self._tally.checked += 1
            values_hold = self._tree is None or self._tree.check(f_locals)
            state_holds = self._state is None or self._state.check(f_locals)
            if self._watches or not (values_hold and state_holds):
                self._look_closely(f_locals, values_hold, state_holds)
        finally:
            self._busy.release()

    def stop(self) -> None:
        """Recording has ended: what the audit held is given back; the entry may live on."""
        self._tree = self._state = None
        self._watches = []
        self._globals = {}
        self.__dict__.pop("_scope", None)

    def _look_closely(self, f_locals: dict[str, Any], values_hold: bool, state_holds: bool) -> None:
        scope = self._scope
        scope["L"] = f_locals
        try:
            if self._state is not None and not state_holds:
                self._watches += self._state.dissolve()
                self._state = None
            if not values_hold:
                self._take_out(scope)
            violated = [watch for watch in self._watches if not watch.holds(scope)]
            if violated:
                self._causes.add(violated, scope)
        finally:
            scope["L"] = None

    def _take_out(self, scope: Scope) -> None:
        if self._resting:
            self._resting -= 1
            return
        assert self._tree is not None
        found = self._tree.take_out(scope)
        self._watches += found
        self._rest = 0 if found else min(max(1, 2 * self._rest), _LONGEST_REST)
        self._resting = self._rest

    @functools.cached_property
    def _scope(self) -> Scope:
        """What sources are evaluated in; the call's locals come and go."""
        guards = sys.modules["torch._dynamo.guards"]
        return {**guards.SYMPY_INTERP, **guards._get_closure_vars(), "G": self._globals}


def auditor(audit: Audit, tally: Tally, budget: Budget) -> Callable[[Any], bool]:
    """The always-true guard: counts the call, and audits it if the budget says so."""

    def audited(f_locals: Any) -> bool:
        try:
            call = tally.reach = tally.reach + 1
            if tally.closed:
                return True
            if budget.wants(call, f_locals):
                before = time.perf_counter()
                audit.check(f_locals)
                after = time.perf_counter()
                tally.seconds += after - before
                budget.spent(call, before, after)
            if call >= tally.due:
                tally.tell_at_due()
        except BaseException as error:
            if not deliver_again(error):
                report_error("guards", error)
        return True

    return audited
