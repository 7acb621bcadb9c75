"""Dropped guards where torch's own check does not run: vLLM's swapped bytecode.

After the first call vLLM puts the compiled bytecode in the place of `forward`'s, and calls that:
torch is not asked which entry serves. We hand the locals of each call to the entry's audit ourselves.
"""

from __future__ import annotations

import inspect
import sys
import weakref
from collections.abc import Callable
from types import CodeType
from typing import Any

from compdbg import probe
from compdbg.hooks.base import Patches, report_error
from compdbg.hooks.frame_calls import tallies_of
from compdbg.hooks.vllm_targets import BYTECODE_HOOK, BYTECODE_SWAP

HOOK = "vllm"

_entries: weakref.WeakKeyDictionary[Any, tuple[CodeType, int]] = weakref.WeakKeyDictionary()
"""Model -> the code of its forward, and which of the compiled entries of that code is its own."""


def install(patches: Patches) -> None:
    patches.wrap(BYTECODE_HOOK, _remember_entry)
    patches.wrap(BYTECODE_SWAP, _audited_call)


def _remember_entry(original: Callable[..., None]) -> Callable[..., None]:
    """The guards of what was just compiled are built next: their tally will be the code's newest."""

    def bytecode_hook(self: Any, old_code: CodeType, new_code: CodeType) -> None:
        original(self, old_code, new_code)
        if getattr(self, "_compiled_bytecode", None) is new_code:
            _entries[self] = (old_code, len(tallies_of(old_code)))

    return bytecode_hook


def _audited_call(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def _dispatch_to_compiled_code(self: Any) -> Any:
        if probe.active():
            try:
                _audit(self, sys._getframe(1).f_locals)
            except Exception as error:
                report_error(HOOK, error)
        return original(self)

    return _dispatch_to_compiled_code


def _audit(model: Any, said: dict[str, Any]) -> None:
    code, place = _entries[model]
    tallies = tallies_of(code)
    if place >= len(tallies):
        return
    tally = tallies[place]
    guard = tally.guard()
    if guard is not None:
        called = (model, *said["args"])
        guard(bound(type(model).forward, called, said["kwargs"]) if tally.audited else {})


def bound(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The locals with which a call of `function` begins, as torch's guards name them."""
    code = function.__code__
    if code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
        given = inspect.signature(function).bind(*args, **kwargs)
        given.apply_defaults()
        found = dict(given.arguments)
    else:
        positional = code.co_varnames[: code.co_argcount]
        defaults = function.__defaults__ or ()
        found = dict(zip(positional[len(positional) - len(defaults) :], defaults, strict=True))
        found.update(function.__kwdefaults__ or {})
        found.update(zip(positional, args, strict=False))
        found.update(kwargs)
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        found[name] = cell.cell_contents
    return found
