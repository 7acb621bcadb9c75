"""Values as text that is the same in every process: for cache keys."""

from __future__ import annotations

import enum
import re
import types
from collections.abc import Callable
from typing import Any

import torch

_PLAIN = (
    int, float, complex, str, bytes, bool, type(None), type(...),
    torch.dtype, torch.device, torch.layout, enum.Enum, re.Pattern,
    torch._ops.OpOverload, torch._ops.OpOverloadPacket,
)  # fmt: skip
_CONTAINERS = (list, tuple, set, frozenset, dict)
_CODE = (type, types.FunctionType, types.MethodType)
_MAX_ELEMENTS = 4096
_MAX_DEPTH = 6


def is_plain(value: Any) -> bool:
    """Whether a value is data, or a container."""
    return isinstance(value, (*_PLAIN, *_CONTAINERS))


def canonical(value: Any, of_code: Callable[[Any], str] = str, depth: int = 0) -> str:
    """The text of a value; of functions and classes what `of_code` says; of other objects their type."""
    if isinstance(value, _CONTAINERS):
        return _of_container(
            value, lambda item: canonical(item, of_code, depth + 1) if depth < _MAX_DEPTH else "…"
        )
    if isinstance(value, _CODE):
        return of_code(value)
    if isinstance(value, _PLAIN):
        return repr(value)
    name = f"{type(value).__module__}.{type(value).__qualname__}"
    return f"{name} {_of_tensor(value)}" if isinstance(value, torch.Tensor) else name


def _of_container(value: Any, inner: Callable[[Any], str]) -> str:
    if isinstance(value, dict):
        return f"{{{', '.join(f'{inner(key)}: {inner(item)}' for key, item in value.items())}}}"
    items = [inner(item) for item in value]
    if isinstance(value, (set, frozenset)):
        items.sort()
    return f"{type(value).__name__}({', '.join(items)})"


def _of_tensor(tensor: torch.Tensor) -> str:
    about = f"{tensor.dtype} {list(tensor.shape)}"
    if type(tensor) is not torch.Tensor or tensor.is_meta or tensor.numel() > _MAX_ELEMENTS:
        return about
    return f"{about} {tensor.detach().cpu().tolist()}"
