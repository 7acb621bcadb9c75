"""One run of torch's guard builder, as it happens: what it built, what the filter kept."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

from compdbg.events import Guard
from compdbg.hooks.audit_judgement import Expected
from compdbg.hooks.base import contained
from compdbg.hooks.compile_facts import Facts
from compdbg.hooks.guard_records import APART, Drafts, draft, settle

Built = tuple[Any, Any]
"""torch's builder, and its manager: the wrapper around a tree of guards."""
Build = Callable[..., Built]


class Building:
    """Lives as long as `CheckFunctionManager.__init__` runs."""

    def __init__(self, manager: Any, facts: Facts, dropped_by: str, audit: bool) -> None:
        self.manager = manager
        self.facts = facts
        self.dropped_by = dropped_by
        """Who drops guards; empty where nobody was asked to."""
        self.audit = audit
        self.tree: Any = None
        """All guards on values, kept and dropped."""
        self.state: Any = None
        """All guards on the process's state, over sizes, and on which inputs are one object."""
        self.global_scope: dict[str, Any] = {}
        self.expected: dict[str, Expected] = {}
        self._texts: dict[str, str] = {}
        self._state_texts: list[str] = []
        self._drafts: Drafts | None = None
        self._kept: set[int] | None = None
        self._names: list[str] = []
        self._kept_names: list[str] = []

    def build(
        self, make: Build, guards: Sequence[Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Built:
        """Have torch build, the first time in two trees: one can be thinned out, the other taken apart."""
        if self._drafts is not None:
            builder, manager = make(guards, *args, **kwargs)
            with contained("guards"):
                self._kept = {id(guard) for guard in guards}
                self._kept_names = list(builder.no_tensor_aliasing_names)
            return builder, manager
        said = _shape_texts()
        before = len(said)
        if self.audit:
            builder, manager = self._build_apart(make, guards, args, kwargs)
        else:
            builder, manager = make(guards, *args, **kwargs)
        with contained("guards"):
            self.global_scope = builder.scope["G"]
            self._names = list(builder.no_tensor_aliasing_names)
            shapes = said[before:] or (_texts_in(manager) if self.state is None else self._state_texts)
            self._drafts = draft(guards, builder, self.facts, self._texts, shapes)
        return builder, manager

    def _build_apart(
        self, make: Build, guards: Sequence[Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Built:
        apart = [guard for guard in guards if guard.create_fn_name() in APART]
        others = [guard for guard in guards if guard.create_fn_name() not in APART]
        state_builder, self.state = make(apart, *args, **kwargs)
        builder, self.tree = make(others, *args, **kwargs)
        with contained("guards"):
            self._state_texts = _texts_in(self.state)
            if state_builder.object_aliasing_guard_codes:
                codes, texts = map(list, zip(*state_builder.object_aliasing_guard_codes, strict=True))
                state_builder.add_python_lambda_leaf_guard_to_root(codes, texts)
        return builder, self.tree

    def note_tensor(self, text: str, value: Any, name: str, sizes: Any, strides: Any, *more: Any) -> None:
        """A tensor guard is made from these."""
        self._texts[name] = text
        if self.audit:
            pytype, keys = more[0] if more else type(value), more[1] if len(more) > 1 else ""
            self.expected[name] = Expected(
                pytype=pytype.__name__,
                dtype=str(value.dtype),
                device=str(value.device),
                requires_grad=bool(value.requires_grad),
                sizes=tuple(sizes),
                strides=tuple(strides),
                keys=str(keys),
            )

    def records(self) -> list[Guard]:
        """All guards, with who dropped them."""
        records = settle(self._drafts or Drafts(), self._kept, self.dropped_by)
        if len(self._names) > 1:
            kept = self._kept is None or self._kept_names == self._names
            records.append(
                Guard(
                    type="NO_TENSOR_ALIASING",
                    expr=f"check_no_aliasing({', '.join(self._names)})",
                    kept=kept,
                    dropped_by=None if kept else self.dropped_by,
                )
            )
        return records

    @property
    def dropped_aliasing(self) -> list[str]:
        """The inputs that must be different tensors, if nobody checks it any more."""
        kept = self._kept is None or self._kept_names == self._names
        return [] if kept or len(self._names) < 2 else self._names


def _shape_texts() -> list[str]:
    """Where torch puts the text of each guard over sizes, with the line that it came from."""
    context = sys.modules["torch._guards"].CompileContext.try_get()
    texts: list[str] = getattr(context, "shape_env_guards", [])
    return texts


def _texts_in(manager: Any) -> list[str]:
    """The same from the tree: a frame compiled ahead of time gets its guards outside any compile."""
    lambdas = manager.root.get_epilogue_lambda_guards()
    return [text for guard in lambdas for text in guard.verbose_code_parts()]


_here = threading.local()


def push(building: Building) -> None:
    _stack().append(building)


def pop() -> None:
    _stack().pop()


def of(manager: Any) -> Building | None:
    """What is being built for this manager on this thread."""
    stack = _stack()
    return stack[-1] if stack and stack[-1].manager is manager else None


def innermost() -> Building | None:
    stack = _stack()
    return stack[-1] if stack else None


def _stack() -> list[Building]:
    stack: list[Building] = _here.__dict__.setdefault("stack", [])
    return stack
