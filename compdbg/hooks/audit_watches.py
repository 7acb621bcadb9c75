"""Dropped guards that are checked one by one, in Python: those seen false, and those beside them.

torch's tree checks a thousand guards in the time of ten of these, but stops at the first that is
false. So what was seen false leaves the tree and is watched here.
"""

from __future__ import annotations

import sys
from typing import Any

from compdbg.events import Guard

Scope = dict[str, Any]
"""What a guard's source is evaluated in: `L`, the call's locals; `G`, the globals; torch's helpers."""

_GONE = (AttributeError, KeyError, IndexError, TypeError, ValueError, ReferenceError)
"""What evaluating a source raises where a value is no longer there."""


_PLAIN = (bool, int, float, str, type(None))


class Missing:
    """Stands for a value that is no longer there."""

    def __repr__(self) -> str:
        return "nothing there"


MISSING = Missing()


class Watch:
    """One guard. `leaf` is the class of torch's leaf guard, or what we check in its place."""

    def __init__(self, leaf: str, source: str, expr: str, record: Guard | None) -> None:
        self.leaf = leaf
        self.source = source
        self.expr = expr
        self.record = record
        self.facets: dict[tuple[str, bool], Any] = {}
        """Its causes, by aspect and harmlessness; filled when it is first seen false."""
        self.judged: tuple[Any, Any] = (None, [])
        """What was said of it last, and of what."""

    def holds(self, scope: Scope) -> bool:
        raise NotImplementedError

    def value(self, scope: Scope) -> Any:
        """The value that the guard is about, or MISSING."""
        return MISSING

    def same_as_before(self, scope: Scope) -> Any:
        """Something that is equal as long as the guard is false in the same way; None where not known."""
        return None


class LeafWatch(Watch):
    """A leaf of torch's tree, called on the value of its source."""

    def __init__(self, guard: Any, owner: Any, source: str, expr: str, record: Guard | None) -> None:
        super().__init__(type(guard).__name__, source, expr, record)
        self._guard = guard
        self._owner = owner
        """The root that owns the leaf: a leaf without it is freed memory."""
        self._code = compile(source, "<guard source>", "eval")

    def holds(self, scope: Scope) -> bool:
        try:
            return bool(self._guard(eval(self._code, scope)))
        except _GONE:
            return False
        except (NameError, SyntaxError):
            return True

    def value(self, scope: Scope) -> Any:
        try:
            return eval(self._code, scope)
        except Exception:
            return MISSING

    def same_as_before(self, scope: Scope) -> Any:
        value = self.value(scope)
        return (type(value), value) if type(value) in _PLAIN else None


class AccessWatch(Watch):
    """A value that the traced code reached, and that must still be there."""

    def __init__(self, source: str, record: Guard | None) -> None:
        super().__init__("ACCESS", source, f"{source} is there", record)
        self._code = compile(source, "<guard source>", "eval")

    def holds(self, scope: Scope) -> bool:
        try:
            eval(self._code, scope)
        except _GONE:
            return False
        except (NameError, SyntaxError):
            return True
        return True


class ExprWatch(Watch):
    """An expression over several sources: sizes, or the identity of two objects."""

    def __init__(self, leaf: str, source: str, expr: str, record: Guard | None) -> None:
        super().__init__(leaf, source, expr, record)
        self._code = compile(expr, "<guard>", "eval")

    def holds(self, scope: Scope) -> bool:
        try:
            return bool(eval(self._code, scope))
        except (NameError, SyntaxError):
            return True
        except Exception:
            return False


class StateWatch(Watch):
    """A leaf on the process's state. It is asked with torch functions on, as torch asks it."""

    def __init__(self, guard: Any, owner: Any, record: Guard, enabled: Any) -> None:
        super().__init__(type(guard).__name__, "", record.expr, record)
        self.guard = guard
        self._owner = owner
        """The root that owns the leaf: a leaf without it is freed memory."""
        self._enabled = enabled

    def holds(self, scope: Scope) -> bool:
        on = self._enabled()
        try:
            return bool(self.guard(scope["L"]))
        except Exception:
            return True
        finally:
            del on

    def same_as_before(self, scope: Scope) -> Any:
        if self.leaf != "GLOBAL_STATE":
            return None
        inference = sys.modules["torch"].is_inference_mode_enabled()
        return inference, *self.guard.check_verbose(None).verbose_code_parts


class AliasWatch(Watch):
    """Inputs that were different tensors when traced, of which the graph writes to `mutated`."""

    def __init__(self, names: list[str], mutated: set[str], record: Guard | None) -> None:
        super().__init__("NO_TENSOR_ALIASING", "", f"check_no_aliasing({', '.join(names)})", record)
        self.mutated = mutated
        self._codes = [(name, compile(name, "<guard source>", "eval")) for name in names]

    def shared(self, scope: Scope) -> list[list[str]]:
        """Names of one tensor, of which one is written to."""
        names: dict[int, list[str]] = {}
        for name, code in self._codes:
            try:
                value = eval(code, scope)
            except Exception:
                continue
            if value is not None:
                names.setdefault(id(value), []).append(name)
        return [same for same in names.values() if len(same) > 1 and self.mutated.intersection(same)]

    def holds(self, scope: Scope) -> bool:
        return not self.shared(scope)
