"""What every hook is made of: a table of private names, patches that can be undone, containment.

A hook is a module with `HOOK = Hook(name, parts)`. A part is installed right after the torch
module that it patches has been imported by the program (never before, so that a program pays
for no torch module that it does not use), or at once where it is already there.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from compdbg import probe
from compdbg.events import Event, HookError, HookState


class Target(NamedTuple):
    """One private name of torch or vLLM, and what we rely on: `torch.x.y:Class.method`."""

    path: str
    params: tuple[str, ...] = ()
    """Parameters that must be there by name; the wrapper may pass on any others."""
    seen: str = "2.11-2.14.1"
    optional: bool = False
    """Absent in some versions by design: its absence does not degrade the hook."""


class Part(NamedTuple):
    """What one module's import triggers: `install(patches)` after `module` was executed."""

    module: str
    install: Callable[[Patches], None]


class Hook(NamedTuple):
    name: str
    parts: tuple[Part, ...]
    targets: tuple[Target, ...] = ()
    proof: tuple[type[Event], ...] = ()
    """Any event of these types shows that the hook works: what `compdbg doctor` looks for."""


def observing(
    name: str, target: Target, after: Callable[..., None], proof: tuple[type[Event], ...] = ()
) -> Hook:
    """A hook that calls `after(result, *args, **kwargs)` each time the function at `target` has returned.

    What `after` raises is recorded; the program gets the function's own result or exception.
    """

    def make(original: Any) -> Any:
        def observed(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            if probe.active():
                with contained(name):
                    after(result, *args, **kwargs)
            return result

        return observed

    part = Part(target.path.partition(":")[0], lambda patches: _wrap(patches, target, make))
    return Hook(name, (part,), (target,), proof)


def _wrap(patches: Patches, target: Target, make: Callable[[Any], Any]) -> None:
    patches.wrap(target, make)


class TargetMissing(Exception):
    """The version of torch that is installed has no such name, or it takes other arguments."""


class Patches:
    """Replaces attributes and remembers how to put them back."""

    def __init__(self, hook: str) -> None:
        self.hook = hook
        self.missing: list[str] = []
        self._undo: list[Callable[[], None]] = []

    def wrap(self, target: Target, make: Callable[[Any], Any]) -> bool:
        """Replace the function at `target` by `make(original)`. False, and noted, if it is not as known."""
        try:
            owner, name, original = resolve(target)
        except TargetMissing as missing:
            if not target.optional:
                self.missing.append(str(missing))
            return False
        static = inspect.getattr_static(owner, name)
        replacement = make(
            original if not isinstance(static, (staticmethod, classmethod)) else static.__func__
        )
        functools.update_wrapper(replacement, original)
        if isinstance(static, (staticmethod, classmethod)):
            replacement = type(static)(replacement)
        self.put(owner, name, replacement)
        return True

    def wrap_bound(self, target: Target, make: Callable[[Any], Any]) -> bool:
        """`wrap`, also where modules have bound the function under its name (`from m import f`)."""
        try:
            owner, name, original = resolve(target)
        except TargetMissing:
            return self.wrap(target, make)
        wrapped = self.wrap(target, make)
        replacement = getattr(owner, name)
        for module in list(sys.modules.values()):
            if module is not owner and getattr(module, "__dict__", {}).get(name) is original:
                self.put(module, name, replacement)
        return wrapped

    def put(self, owner: Any, name: str, value: Any) -> None:
        """Set an attribute of a class or module, to be put back by `undo`."""
        had = name in vars(owner)
        before = vars(owner).get(name)
        setattr(owner, name, value)

        def restore() -> None:
            if had:
                setattr(owner, name, before)
            else:
                delattr(owner, name)

        self._undo.append(restore)

    def on_undo(self, action: Callable[[], None]) -> None:
        self._undo.append(action)

    def undo(self) -> None:
        while self._undo:
            self._undo.pop()()


def resolve(target: Target) -> tuple[Any, str, Any]:
    """Owner, attribute name and present value of a target; raises TargetMissing."""
    module_name, _, dotted = target.path.partition(":")
    owner: Any = sys.modules.get(module_name) or importlib.import_module(module_name)
    *way, name = dotted.split(".")
    for step in way:
        owner = getattr(owner, step, None)
        if owner is None:
            raise TargetMissing(f"{target.path}: no {step!r} here")
    original = getattr(owner, name, None)
    if original is None:
        raise TargetMissing(f"{target.path}: not here (seen in {_release(target)})")
    if target.params:
        known = _parameters(original)
        lacking = [p for p in target.params if known is not None and p not in known]
        if lacking:
            raise TargetMissing(f"{target.path}: takes no {', '.join(lacking)} (seen in {_release(target)})")
    return owner, name, original


def _release(target: Target) -> str:
    return f"torch {target.seen}" if target.seen[:1].isdigit() else target.seen


def _parameters(function: Any) -> set[str] | None:
    try:
        return set(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return None


_reported: dict[tuple[str, str], int] = {}
probe.at_end(_reported.clear)


@contextlib.contextmanager
def contained(hook: str) -> Iterator[None]:
    """Swallow and record whatever our own code raises in the program. Not for per-call paths."""
    try:
        yield
    except Exception as error:
        report_error(hook, error)


def report_error(hook: str, error: BaseException) -> None:
    """Record a hook's own fault: in full the first time, then at each power of ten."""
    key = (hook, f"{type(error).__name__}: {error}"[:300])
    count = _reported[key] = _reported.get(key, 0) + 1
    if str(count).strip("0") == "1":
        text = "".join(traceback.format_exception(error))[-4000:] if count == 1 else ""
        probe.emit(HookError(hook=hook, error=key[1], traceback=text, count=count))


def install_part(hook: Hook, part: Part) -> Patches:
    """Install one part now; its state is an event. Never raises."""
    patches = Patches(hook.name)
    try:
        part.install(patches)
        state = "degraded" if patches.missing else "works"
        detail = "; ".join(patches.missing)
    except TargetMissing as missing:
        state, detail = "absent", str(missing)
    except Exception as error:
        report_error(hook.name, error)
        state, detail = "absent", f"{type(error).__name__}: {error}"
    probe.emit(HookState(hook=hook.name, state=state, detail=detail, module=part.module))
    return patches
