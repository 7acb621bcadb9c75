"""Dropped guards on the process's state and over sizes: checked at once, and one by one when one is false."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any

from compdbg.events import Guard
from compdbg.hooks.audit_tree import text_of
from compdbg.hooks.audit_watches import ExprWatch, StateWatch, Watch

_TYPES = {
    "GLOBAL_STATE": "GLOBAL_STATE",
    "TORCH_FUNCTION_MODE_STACK": "TORCH_FUNCTION_STATE",
    "DUAL_LEVEL_MATCH": "DUAL_LEVEL",
    "DEFAULT_DEVICE": "DEFAULT_DEVICE",
}
"""Class of torch's leaf -> type of its guard."""
_CHANGED = "GLOBAL_STATE changed: "


class State:
    """The root of a tree that holds what is no value of the program's."""

    def __init__(self, manager: Any, records: Iterable[Guard]) -> None:
        self._manager = manager
        self._root = manager.root
        self._records = [r for r in records if not r.kept]
        self._enabled = sys.modules["torch"]._C._EnableTorchFunction

    def check(self, f_locals: Any) -> bool:
        """Torch functions are off while a guard's lambda runs, which is no change of state."""
        enabled = self._enabled()
        fine = bool(self._root.check(f_locals))
        del enabled
        return fine

    def dissolve(self) -> list[Watch]:
        """A watch for each dropped guard."""
        return [*self._leaves(), *self._expressions()]

    def _leaves(self) -> Iterator[Watch]:
        for guard in self._root.get_leaf_guards():
            name = type(guard).__name__
            record = self._record(_TYPES.get(name, ""), text_of(guard))
            if record is None:
                continue
            if callable(guard):
                yield StateWatch(guard, self._root, record, self._enabled)

    def _record(self, kind: str, text: str) -> Guard | None:
        for record in self._records:
            if record.type == kind or record.expr == text:
                return record
        return None

    def _expressions(self) -> Iterator[Watch]:
        for record in self._records:
            if record.type == "SHAPE_ENV":
                yield ExprWatch("SHAPE", record.source, record.expr, record)
            elif record.type == "DUPLICATE_INPUT":
                yield ExprWatch("DUPLICATE", record.source, record.expr, record)


def changed_tokens(guard: Any) -> list[str]:
    """What a GLOBAL_STATE leaf finds changed: `["grad_mode", "num_threads"]`.

    Torch functions are off while we look, which it tells too.
    """
    parts = guard.check_verbose(None).verbose_code_parts
    texts = [part.removeprefix(_CHANGED) for part in parts if part.startswith(_CHANGED)]
    return [token for text in texts for token in text.split() if not token.startswith("torch_function")]
