"""Where the traced program reads a tensor's dtype, shape or device, or the grad mode, into a Python value.

What is read is frozen in the compiled code. A violated guard on it is then told with the line that
used it, which is rarely the line that torch made the guard for.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from compdbg import probe
from compdbg.hooks import compile_facts
from compdbg.hooks.base import Patches, Target, contained
from compdbg.hooks.guard_names import source_name
from compdbg.hooks.userline import is_user_file

_CLASS = "torch._dynamo.variables.tensor:TensorVariable"
_PROPERTIES = {
    "method_attr_ndim": "rank", "method_dim": "rank", "method_ndimension": "rank",
    "method_attr_shape": "size", "method_size": "size", "method_numel": "size", "method_nelement": "size",
    "method___len__": "size", "unpack_var_sequence": "size",
    "method_stride": "stride", "method_is_contiguous": "stride",
    "method_attr_dtype": "dtype", "method_is_floating_point": "dtype", "method_is_complex": "dtype",
    "method_type": "dtype", "method_element_size": "dtype",
    "method_attr_device": "device", "method_attr_is_cuda": "device", "method_get_device": "device",
    "method_attr_requires_grad": "requires_grad",
}  # fmt: skip
"""Dynamo's methods for what a program asks of a tensor -> the part of a tensor guard."""

CALL = Target("torch._dynamo.variables.torch:TorchInGraphFunctionVariable.call_function", ("tx", "args"))
_STATES = {
    "is_grad_enabled": "grad_mode", "is_inference_mode_enabled": "grad_mode",
    "get_default_dtype": "default_dtype", "is_autocast_enabled": "autocast",
    "is_autocast_cpu_enabled": "autocast", "get_autocast_dtype": "autocast",
    "get_num_threads": "num_threads",
    "are_deterministic_algorithms_enabled": "deterministic_algorithms",
}  # fmt: skip
"""Functions of torch that tell the state of the process -> the part of GLOBAL_STATE."""

TARGETS = (*(Target(f"{_CLASS}.{method}", optional=True) for method in _PROPERTIES), CALL)


def install_torch(patches: Patches) -> None:
    patches.wrap(CALL, _on_call)


def _on_call(original: Callable[..., Any]) -> Callable[..., Any]:
    def call_function(self: Any, *args: Any, **kwargs: Any) -> Any:
        state = _STATES.get(getattr(self.value, "__name__", ""))
        if state is not None and probe.active():
            with contained("guards"):
                _note_state(state)
        return original(self, *args, **kwargs)

    return call_function


def _note_state(state: str) -> None:
    """Only where the user's own code asks: libraries ask for the grad mode to save memory or time."""
    facts, at = compile_facts.here(), compile_facts.traced_instruction()
    if facts is not None and at is not None and is_user_file(str(at[0])):
        facts.reads.setdefault(("state", state), compile_facts.traced_line())


def install(patches: Patches) -> None:
    for target, prop in zip(TARGETS, _PROPERTIES.values(), strict=False):
        patches.wrap(target, functools.partial(_noting, prop))


def _noting(prop: str, original: Callable[..., Any]) -> Callable[..., Any]:
    def read(self: Any, *args: Any, **kwargs: Any) -> Any:
        answer = original(self, *args, **kwargs)
        if answer is not None and probe.active():
            with contained("guards"):
                _note(self, prop)
        return answer

    return read


def _note(variable: Any, prop: str) -> None:
    facts = compile_facts.here()
    if facts is None:
        return
    source = getattr(variable, "source", None)
    key = (source_name(source) if source is not None else "", prop)
    if key not in facts.reads:
        facts.reads[key] = compile_facts.traced_line()
