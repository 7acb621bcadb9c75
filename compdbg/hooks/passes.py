"""Every pass over a graph, Inductor's and the user's, through torch's own observer.

Inductor runs its passes, and those that users hang into its slots, inside
`GraphTransformObserver`; so does each `PatternMatcherPass.apply`. Passes nest.
"""

from __future__ import annotations

import functools
import inspect
import sys
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from compdbg import probe
from compdbg.events import PassRun, Where
from compdbg.hooks.base import Hook, Part, Patches, Target, contained
from compdbg.hooks.passrun import NAME, Running, begin, end
from compdbg.hooks.userline import is_torch_file, of_code

SLOTS = (
    "pre_grad_custom_pass", "joint_custom_pre_pass", "joint_custom_post_pass",
    "post_grad_custom_pre_pass", "post_grad_custom_post_pass",
)  # fmt: skip

_OBSERVER = "torch.fx.passes.graph_transform_observer:GraphTransformObserver."
ENTER = Target(_OBSERVER + "__enter__")
EXIT = Target(_OBSERVER + "__exit__")
APPLY_GRAPH = Target(_OBSERVER + "apply_graph_pass", ("pass_fn",))
APPLY_MODULE = Target(_OBSERVER + "apply_gm_pass", ("pass_fn",))
DISABLED = Target(_OBSERVER + "_check_disable_pass")


class _Custom(NamedTuple):
    """The pass in a slot: its own name (empty for a lambda), and where it is defined."""

    name: str
    where: Where | None


_here = threading.local()


def _running() -> dict[int, Running]:
    """The passes that run on this thread, by the observer that watches them."""
    running: dict[int, Running] = _here.__dict__.setdefault("running", {})
    return running


def _around_enter(original: Callable[..., Any]) -> Callable[..., Any]:
    def enter(self: Any) -> Any:
        if probe.active():
            with contained(NAME):
                running = begin(self.gm.graph, self.passname)
                _running()[id(self)] = running
                running.subsystem = self.subsystem or ""
                _name_custom(running, sys._getframe(1).f_code.co_filename)
        return original(self)

    return enter


def _name_custom(running: Running, caller: str) -> None:
    custom: _Custom | None = _here.__dict__.pop("custom", None)
    if custom is not None:
        running.custom, running.slot, running.where = True, running.name, custom.where
        running.name = custom.name or running.name
    elif not is_torch_file(caller):
        running.custom = True


def _around_exit(original: Callable[..., Any]) -> Callable[..., Any]:
    def leave(self: Any, kind: Any, value: Any, traceback: Any) -> Any:
        result = original(self, kind, value, traceback)
        running = _running().pop(id(self), None)
        if running is not None:
            with contained(NAME):
                end(running, None if kind is None else f"{kind.__name__}: {value}"[:500])
        return result

    return leave


def _around_apply(original: Callable[..., Any]) -> Callable[..., Any]:
    def apply_pass(self: Any, pass_fn: Any) -> Any:
        if self.passname in SLOTS and probe.active():
            with contained(NAME):
                _here.custom = _describe(pass_fn)
        return original(self, pass_fn)

    return apply_pass


def _describe(pass_fn: Any) -> _Custom | None:
    """Name and place of a user's pass; None for one of torch's own that goes by the same slot."""
    while isinstance(pass_fn, functools.partial):
        pass_fn = pass_fn.func
    owner = getattr(pass_fn, "__self__", None)
    called = pass_fn if hasattr(pass_fn, "__code__") else type(pass_fn).__call__
    code = getattr(inspect.unwrap(called), "__code__", None)
    if code is not None and is_torch_file(code.co_filename) and owner is None:
        return None
    if owner is not None:
        name = type(owner).__name__
    elif hasattr(pass_fn, "__qualname__"):
        name = pass_fn.__qualname__.split("<locals>.")[-1]
    else:
        name = type(pass_fn).__name__
    return _Custom("" if name == "<lambda>" else name, of_code(code) if code is not None else None)


def _around_disabled(original: Callable[..., Any]) -> Callable[..., Any]:
    def check_disable_pass(self: Any) -> Any:
        disabled = original(self)
        running = _running().get(id(self)) if disabled else None
        if running is not None:
            with contained(NAME):
                running.disabled_by = _who_disabled(self.passname)
        return disabled

    return check_disable_pass


def _who_disabled(name: str) -> str:
    config = sys.modules.get("torch._inductor.config")
    listed = str(getattr(config, "disabled_passes", "") or "")
    if name.upper() in listed.upper():
        return f"torch._inductor.config.disabled_passes = {listed!r}"
    return "torch's compiler bisector"


def _install(patches: Patches) -> None:
    patches.wrap(ENTER, _around_enter)
    patches.wrap(EXIT, _around_exit)
    patches.wrap(APPLY_GRAPH, _around_apply)
    patches.wrap(APPLY_MODULE, _around_apply)
    patches.wrap(DISABLED, _around_disabled)


HOOK = Hook(
    NAME,
    (Part("torch.fx.passes.graph_transform_observer", _install),),
    (ENTER, EXIT, APPLY_GRAPH, APPLY_MODULE, DISABLED),
    proof=(PassRun,),
)
