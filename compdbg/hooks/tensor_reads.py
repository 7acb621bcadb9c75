"""Where the traced program reads a tensor's dtype, shape or device into a Python value.

What is read is frozen in the compiled code. A violated tensor guard on a property is then told
with the line that used it, which is rarely the line that torch made the guard for.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from compdbg import probe
from compdbg.hooks import compile_facts
from compdbg.hooks.base import Patches, Target, contained
from compdbg.hooks.guard_names import source_name

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

TARGETS = tuple(Target(f"{_CLASS}.{method}", optional=True) for method in _PROPERTIES)


def install(patches: Patches) -> None:
    for target, prop in zip(TARGETS, _PROPERTIES.values(), strict=True):
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
