"""torch's own tree of guards, from which guards that were seen false are taken out."""

from __future__ import annotations

import contextlib
import functools
import re
import sys
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from compdbg.events import Guard
from compdbg.hooks.audit_watches import MISSING, AccessWatch, ExprWatch, LeafWatch, Scope, Watch

_REMARK = re.compile(r"\s+# .*$", re.DOTALL)
_HINT = re.compile(r" \(HINT: .*\)$", re.DOTALL)


class Tree:
    """All guards on values, as torch built them before it filtered; checked at torch's speed."""

    def __init__(self, manager: Any, records: Sequence[Guard]) -> None:
        self._manager = manager
        """Owns the tree: managers and leaves below are references into it."""
        self._present: Any = manager.root
        self._out: set[str] = set()
        self._all = records

    @functools.cached_property
    def _records(self) -> dict[str, list[Guard]]:
        """By source. Most entries never need it."""
        found: dict[str, list[Guard]] = {}
        for record in self._all:
            found.setdefault(record.source, []).append(record)
        return found

    def check(self, f_locals: Any) -> bool:
        return bool(self._present.check(f_locals))

    def take_out(self, scope: Scope) -> list[Watch]:
        """Watches for every manager with a guard that is false now, and for all below it.

        Such a manager leaves the tree; the rest of it is checked as before. Empty if none is false,
        which means that torch's tree and its sources disagree.
        """
        false = {m.get_source() for m in self._managers() if not self._holds(m, scope)}
        if not false:
            return []
        watches = [w for top in self._tops(false) for w in self._watches(top, scope)]
        self._out |= false
        self._present = self._manager.root.clone_manager(lambda m: m.get_source() not in self._out)
        return watches

    def _managers(self) -> Iterator[Any]:
        """All managers that are still in the tree."""
        return all_managers(self._manager.root, self._out)

    def _tops(self, false: set[str]) -> Iterator[Any]:
        """The false managers with no false one above them."""
        waiting = list(_children(self._manager.root))
        while waiting:
            manager = waiting.pop()
            source = manager.get_source()
            if source in self._out:
                continue
            if source in false:
                yield manager
            else:
                waiting.extend(_children(manager))

    def _holds(self, manager: Any, scope: Scope) -> bool:
        source = manager.get_source()
        try:
            value = eval(source, scope)
        except (NameError, SyntaxError):
            return True
        except Exception:
            return False
        try:
            fine = all(guard(value) for guard in manager.get_leaf_guards() if callable(guard))
        except Exception:
            return False
        keys = self._keys(manager, source)
        return fine and (keys is None or keys.holds(scope))

    def _keys(self, manager: Any, source: str) -> Watch | None:
        """A manager of a dict's items checks the keys itself, without a leaf."""
        if not _is_of_dict(manager):
            return None
        for record in self._records.get(source, ()):
            if record.type == "DICT_KEYS_MATCH" and not record.kept:
                with contextlib.suppress(SyntaxError):
                    return ExprWatch("KEYS", source, record.expr, record)
        return None

    def _watches(self, top: Any, scope: Scope) -> Iterator[Watch]:
        waiting = [top]
        while waiting:
            manager = waiting.pop()
            source = manager.get_source()
            keys = self._keys(manager, source)
            found = keys is not None
            if keys is not None:
                yield keys
            for guard in manager.get_leaf_guards():
                expr = text_of(guard)
                record = self.record(source, type(guard).__name__, expr)
                if callable(guard) and (record is None or not record.kept):
                    found = True
                    yield LeafWatch(guard, self._manager.root, source, expr, record)
            if not found and value_at(source, scope) is MISSING:
                yield AccessWatch(source, self.record(source, "", ""))
            waiting.extend(_children(manager))

    def record(self, source: str, leaf: str, expr: str) -> Guard | None:
        """The record that a leaf comes from: the same source and expression, else the nearest above."""
        plain = source.removesuffix(".__dict__").removesuffix(".__code__")
        candidates = self._records.get(source) or self._records.get(plain) or []
        for record in candidates:
            if record.expr == expr or record.type == leaf:
                return record
        if candidates:
            return candidates[0]
        while source:
            source = (
                source[: max(source.rfind("."), source.rfind("["))]
                if ("." in source or "[" in source)
                else ""
            )
            if source in self._records:
                return self._records[source][0]
        return None


def all_managers(root: Any, without: Collection[str] = ()) -> Iterator[Any]:
    """The managers of a tree, parents first; not the root, which guards no value."""
    waiting = list(_children(root))
    while waiting:
        manager = waiting.pop()
        if manager.get_source() not in without:
            yield manager
            waiting.extend(_children(manager))


def text_of(guard: Any) -> str:
    """A leaf's expression, without the user's line and the hint that torch appends."""
    parts = [_HINT.sub("", _REMARK.sub("", part)).rstrip() for part in guard.verbose_code_parts()]
    return parts[0] if parts else type(guard).__name__


def value_at(source: str, scope: Scope) -> Any:
    try:
        return eval(source, scope)
    except Exception:
        return MISSING


def _is_of_dict(manager: Any) -> bool:
    return isinstance(manager, sys.modules["torch"]._C._dynamo.guards.DictGuardManager)


def _children(manager: Any) -> list[Any]:
    if _is_of_dict(manager):
        pairs = manager.get_key_value_managers().values()
        return [m for pair in pairs for m in pair if m is not None]
    return list(manager.get_child_managers())
