"""What the operators of a recorded call read besides its inputs, compared between capture and replays.

A CUDA graph freezes whatever Python reads while it is captured: a global, an attribute, the number of
true rows. The CPU's stand-in runs the code again and reads the new value, so the difference would show
on a GPU only. So the arguments of every operator are noted at capture, and on a sample of replays.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch

Changed = Callable[[str, str, str], None]
"""Called with what was read, its value at capture, and its value now."""

_FIRST, _THEN = 64, 256


def is_sampled(replay: int) -> bool:
    """Whether the operators of this replay, counted from 1, are compared."""
    return replay <= _FIRST or replay % _THEN == 0


class Step(NamedTuple):
    """One operator: its plain arguments, and the tensors that it took from outside of its caller."""

    op: str
    plain: tuple[tuple[str, Any], ...]
    tensors: tuple[tuple[str, weakref.ref[torch.Tensor], int], ...]


class OperatorNotes:
    """Steps of one call. With `expected`, those of the capture, the first that differs is told."""

    def __init__(self, expected: Sequence[Step] | None = None, changed: Changed | None = None) -> None:
        self.steps: list[Step] = []
        self._expected = expected
        self._changed = changed
        self._known: list[set[int]] = []
        """Of each operator of the program that is running, the memory that it was given or has made."""

    def before(self, func: Any, args: Any, kwargs: Any) -> None:
        if self._expected is not None and self._changed is None:
            return
        leaves = list(_leaves(args, kwargs))
        plain = tuple((place, value) for place, value in leaves if not isinstance(value, torch.Tensor))
        outside = self._known and "lift_fresh" not in str(func)
        tensors = tuple(
            (place, weakref.ref(value), value.data_ptr())
            for place, value in leaves
            if outside and isinstance(value, torch.Tensor) and _memory(value) not in self._known[-1]
        )
        self.steps.append(Step(str(func), plain, tensors))
        if self._expected is not None:
            self._compare(len(self.steps) - 1)

    def made(self, result: Any) -> None:
        if self._known:
            self._known[-1].update(
                _memory(v) for _, v in _leaves((result,), {}) if isinstance(v, torch.Tensor)
            )

    def enter(self, args: Any, kwargs: Any) -> None:
        """An operator of the program begins: what it was given is its own."""
        given = {_memory(v) for _, v in _leaves(args, kwargs) if isinstance(v, torch.Tensor)}
        self._known.append(given)

    def leave(self) -> None:
        self._known.pop()

    def kept(self) -> list[Step]:
        """The steps, with only those tensors that have outlived the call."""
        return [
            step._replace(tensors=tuple(t for t in step.tensors if t[1]() is not None)) for step in self.steps
        ]

    def _compare(self, at: int) -> None:
        expected = self._expected or ()
        step = self.steps[at]
        then = expected[at] if at < len(expected) else None
        if then is None or then.op != step.op:
            self._tell("the choice of operators", then.op if then else "no further one", step.op)
            return
        for (place, now), (_, before) in zip(step.plain, then.plain, strict=False):
            if type(now) is not type(before) or (now != before and repr(now) != repr(before)):
                self._tell(f"{place} of {step.op}", repr(before), repr(now))
                return
        current = {place: address for place, _, address in step.tensors}
        for place, tensor, address in then.tensors:
            if tensor() is not None and current.get(place, address) != address:
                self._tell(f"the tensor that is {place} of {step.op}", hex(address), hex(current[place]))
                return

    def _tell(self, what: str, captured: str, seen: str) -> None:
        """Once a call: what comes after it follows from it."""
        changed, self._changed = self._changed, None
        if changed is not None:
            changed(what, captured, seen)


def _memory(value: torch.Tensor) -> int:
    try:
        return int(value.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):
        return id(value)


def _leaves(args: Any, kwargs: Any) -> Iterator[tuple[str, Any]]:
    """Tensors and plain values among arguments, with their places."""
    for i, value in enumerate(args):
        yield from _inside(f"argument {i}", value)
    for name, value in (kwargs or {}).items():
        yield from _inside(str(name), value)


def _inside(place: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, (list, tuple)):
        for part in value:
            yield from _inside(place, part)
    elif isinstance(value, (torch.Tensor, bool, int, float, str)):
        yield place, value
