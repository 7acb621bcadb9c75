"""The extra checks of entries, watched while their pass is applied; and what is applied on this thread."""

from __future__ import annotations

import functools
import threading
import time
import weakref
from typing import Any

from compdbg.hooks.base import report_error
from compdbg.hooks.pattern_matcher_apply import Applying
from compdbg.hooks.pattern_matcher_passes import PassInfo

NAME = "pattern_matcher"
_here = threading.local()


def applying_here() -> list[Applying]:
    """The applies under way on this thread, innermost last."""
    stack: list[Applying] | None = getattr(_here, "stack", None)
    if stack is None:
        stack = _here.stack = []
    return stack


class Checked:
    """An entry's `extra_check`, watched while a pass is applied on this thread."""

    def __init__(self, check: Any) -> None:
        functools.update_wrapper(self, check)
        self.watched_check = check

    def __call__(self, match: Any) -> Any:
        stack = applying_here()
        checking = None
        try:
            checking = stack[-1].check_begins(match) if stack else None
        except Exception as error:
            report_error(NAME, error)
        if checking is None:
            return self.watched_check(match)
        started = time.perf_counter()
        try:
            result = self.watched_check(match)
        except BaseException:
            stack[-1].checking = None
            raise
        seconds = time.perf_counter() - started
        try:
            stack[-1].check_ends(checking, self.watched_check, match, result, seconds)
        except Exception as error:
            report_error(NAME, error)
        return result


_checked: list[Any] = []
"""Weak references to the entries whose check is watched."""


def watch_checks(info: PassInfo) -> None:
    """Watch the check of each entry whose attempts are noted, once."""
    for reference in info.traced:
        entry = reference()
        if entry is not None and not isinstance(entry.extra_check, Checked):
            entry.extra_check = Checked(entry.extra_check)
            _checked.append(weakref.ref(entry))


def unwatch_checks() -> None:
    """Give every entry its own check back."""
    while _checked:
        entry = _checked.pop()()
        if entry is not None and isinstance(entry.extra_check, Checked):
            entry.extra_check = entry.extra_check.watched_check
