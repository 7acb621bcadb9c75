"""Custom operators, checked on some of their calls: `--check-ops` only.

Watched are kernels in Python: of `torch.library.custom_op`, and of `Library.impl` for a backend.
An operator in C++ has no Python that could be watched.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from compdbg.events import OpsChecked
from compdbg.hooks.base import Hook, Part, Patches, Target, contained
from compdbg.hooks.op_calls import checking, place_of
from compdbg.hooks.userline import is_torch_file

NAME = "ops"
_REGISTER = Target("torch._library.custom_ops:CustomOpDef.register_kernel", ("device_types", "fn"))
IMPL = Target("torch.library:Library.impl", ("op_name", "fn", "dispatch_key"))
_DEFINITIONS = Target("torch._library.custom_ops:OPDEFS")
_REGISTRY = Target("torch._library.simple_registry:singleton")
_LOOK_UP = Target("torch._library.utils:lookup_op", ("qualname",))

BACKENDS = frozenset({"CPU", "CUDA", "XPU", "MPS", "HIP", "PrivateUse1", "CompositeExplicitAutograd"})


def _registering(original: Any) -> Any:
    def register_kernel(self: Any, device_types: Any, fn: Any = None, /) -> Any:
        if fn is not None:
            result = original(self, device_types, fn)
            with contained(NAME):
                _watch_definition(self)
            return result
        decorate = original(self, device_types)

        def inner(kernel: Any) -> Any:
            result = decorate(kernel)
            with contained(NAME):
                _watch_definition(self)
            return result

        return inner

    return register_kernel


def _watch_definition(definition: Any) -> None:
    """The kernels of a `custom_op`, of which torch looks up the one to call at each call."""
    user = place_of(definition._init_fn)
    if user is None:
        return
    for device, kernel in list(definition._backend_fns.items()):
        if not hasattr(kernel, "watched_kernel"):
            definition._backend_fns[device] = checking(definition._qualname, kernel)


def wrapping_kernels(wrap: Callable[[str, Any], Any], hook: str) -> Callable[[Any], Any]:
    """A `Library.impl` that registers `wrap(name, kernel)` for the user's kernels in Python."""

    def implementing(original: Any) -> Any:
        def impl(self: Any, op_name: Any, fn: Any, dispatch_key: str = "", **options: Any) -> Any:
            kernel = fn
            with contained(hook):
                if (
                    _is_users(fn)
                    and not options.get("with_keyset")
                    and (dispatch_key or self.dispatch_key) in BACKENDS
                ):
                    kernel = wrap(_name_of(self, op_name), fn)
            return original(self, op_name, kernel, dispatch_key, **options)

        return impl

    return implementing


def _is_users(function: Any) -> bool:
    code = getattr(function, "__code__", None)
    return code is not None and not is_torch_file(code.co_filename)


def _name_of(library: Any, op: Any) -> str:
    name = op if isinstance(op, str) else op.name()
    return name if "::" in name else f"{library.ns}::{name}"


def _install(patches: Patches) -> None:
    patches.wrap(_REGISTER, _registering)
    patches.wrap(IMPL, wrapping_kernels(checking, NAME))
    definitions = dict(sys.modules["torch._library.custom_ops"].OPDEFS)
    for definition in definitions.values():
        _watch_definition(definition)
    patches.on_undo(_unwatch)


def _unwatch() -> None:
    """Give every op its own kernel back; one in the dispatcher stays, and costs a branch."""
    for definition in dict(sys.modules["torch._library.custom_ops"].OPDEFS).values():
        for device, kernel in list(definition._backend_fns.items()):
            definition._backend_fns[device] = getattr(kernel, "watched_kernel", kernel)


HOOK = Hook(
    NAME,
    (Part("torch", _install),),
    (_REGISTER, IMPL, _DEFINITIONS, _REGISTRY, _LOOK_UP),
    proof=(OpsChecked,),
)
