"""Kept guards that a stance has torch skip: `set_stance(skip_guard_eval_unsafe=True)`.

torch then checks a short form of the entry's guards, with those that tell its entries apart. Our
guard on the short form checks the whole, within the budget, and tells what is false.
"""

from __future__ import annotations

import re
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import PurePath
from types import CodeType
from typing import Any

from compdbg.events import Guard, Where
from compdbg.hooks.audit_budget import Budget
from compdbg.hooks.audit_causes import Causes
from compdbg.hooks.audit_judgement import Expected
from compdbg.hooks.audit_tree import all_managers, text_of
from compdbg.hooks.audit_watches import ExprWatch, LeafWatch, Scope, StateWatch, Watch
from compdbg.hooks.base import report_error
from compdbg.hooks.compile_facts import Facts
from compdbg.hooks.frame_calls import Tally
from compdbg.hooks.interrupts import deliver_again
from compdbg.hooks.shape_guards import shape_guards

SKIPPED_BY = "torch.compiler.set_stance(skip_guard_eval_unsafe=True)"
_PLACE = re.compile(r"# (?P<file>[^#]+?):(?P<line>\d+) in (?P<function>\S+)")
_TENSOR = re.compile(
    r"check_tensor\((?P<name>.+?), (?P<pytype>\w+), (?P<keys>DispatchKeySet\(.*?\)), (?P<dtype>torch\.\w+), "
    r"device=(?P<device>\w+), requires_grad=(?P<grad>\w+), size=\[(?P<sizes>.*?)\], "
    r"stride=\[(?P<strides>.*?)\]\)"
)


class Skipped:
    """The guards of one entry, of which torch checks only the short form."""

    def __init__(self, guard_manager: Any, tally: Tally, facts: Facts, global_scope: dict[str, Any]) -> None:
        self._manager = weakref.ref(guard_manager)
        self._tally = tally
        self._facts = facts
        self._globals = global_scope
        self._expected: dict[str, Expected] = {}
        self._causes = Causes(tally, facts, self._expected)
        self._watches: list[Watch] | None = None

    def check(self, f_locals: dict[str, Any]) -> bool:
        """Check all guards once. Whether the entry's own counter has counted the call."""
        guard_manager = self._manager()
        if guard_manager is None:
            return False
        self._tally.audited, self._tally.skipped_by = True, SKIPPED_BY
        self._tally.checked += 1
        if self._watches is None:
            enabled = sys.modules["torch"]._C._EnableTorchFunction()
            fine = bool(guard_manager.root.check(f_locals))
            del enabled
            if fine:
                return True
            self._watches = list(self._all(guard_manager.root))
        guards = sys.modules["torch._dynamo.guards"]
        scope: Scope = {
            **guards.SYMPY_INTERP,
            **guards._get_closure_vars(),
            "G": self._globals,
            "L": f_locals,
        }
        violated = [watch for watch in self._watches if not watch.holds(scope)]
        if violated:
            self._causes.add(violated, scope)
        scope.clear()
        return False

    def _all(self, root: Any) -> Iterator[Watch]:
        """A watch for each guard: the tree can't be thinned out, torch uses it."""
        enabled = sys.modules["torch"]._C._EnableTorchFunction
        for guard in root.get_leaf_guards():
            if callable(guard):
                yield StateWatch(guard, root, self._record(guard, ""), enabled)
        for manager in all_managers(root):
            source = manager.get_source()
            for guard in manager.get_leaf_guards():
                if callable(guard):
                    self._note_tensor(source, text_of(guard))
                    yield LeafWatch(guard, root, source, text_of(guard), self._record(guard, source))
        texts = [text for guard in root.get_epilogue_lambda_guards() for text in guard.verbose_code_parts()]
        yield from self._expressions([text for text in texts if not text.startswith("___compdbg")])

    def _expressions(self, texts: list[str]) -> Iterator[Watch]:
        for record, place in shape_guards(texts, self._facts):
            self._facts.shape_guards[record.expr] = place
            leaf = "DUPLICATE" if " is " in record.expr else "SHAPE"
            yield ExprWatch(leaf, record.source, record.expr, record)

    def _record(self, guard: Any, source: str) -> Guard:
        texts = guard.verbose_code_parts()
        where = _place_in(texts[0] if texts else "", self._tally.code)
        return Guard(type=type(guard).__name__, expr=text_of(guard), source=source, where=where, kept=False)

    def _note_tensor(self, source: str, expr: str) -> None:
        found = _TENSOR.match(expr)
        if found is None:
            return
        index = "" if found["device"] == "None" else f":{found['device']}"
        self._expected[source] = Expected(
            pytype=found["pytype"],
            dtype=found["dtype"],
            device=("cuda" if "CUDA" in found["keys"] else "cpu") + index,
            requires_grad=found["grad"] == "True",
            sizes=_numbers(found["sizes"]),
            strides=_numbers(found["strides"]),
            keys=found["keys"],
        )


def _numbers(text: str) -> tuple[int | None, ...]:
    return tuple(None if word == "None" else int(word) for word in text.split(", ") if word)


def _place_in(text: str, code: CodeType) -> Where | None:
    """torch shortens the file's name; the entry's own file is known in full."""
    found = _PLACE.search(text)
    if found is None or PurePath(found["file"]).name != PurePath(code.co_filename).name:
        return None
    return Where(code.co_filename, int(found["line"]), found["function"])


def skipping(
    skipped: Skipped, tally: Tally, budget: Budget, count: Callable[[Any], bool]
) -> Callable[[Any], bool]:
    """The always-true guard of the short form: counts the call, and audits it if the budget says so."""

    def audited(f_locals: Any) -> bool:
        counted = False
        try:
            if tally.closed:
                return True
            call = tally.calls + 1
            if budget.wants(call, f_locals):
                before = time.perf_counter()
                counted = skipped.check(f_locals)
                after = time.perf_counter()
                tally.seconds += after - before
                budget.spent(call, before, after)
            if not counted:
                count(f_locals)
        except BaseException as error:
            if not deliver_again(error):
                report_error("guards", error)
        return True

    return audited
