"""Values that guards ask about, as texts and plain data that mean the same in every process."""

from __future__ import annotations

import enum
import functools
import types
from collections.abc import Collection
from typing import Any

import torch

from compdbg.compiler.cache_entry import digest
from compdbg.compiler.code_hash import code_text, functions_of

_PLAIN = (
    int, float, complex, str, bytes, range, slice, type(None), type(...), type(NotImplemented),
    torch.dtype, torch.device, torch.layout, torch.memory_format, enum.Enum,
)  # fmt: skip
_GUARDS_CLASSES = torch.__version__ >= "2.13"
"""Whether a graph that went by an attribute of a class has a guard on it."""
_CONTAINERS: tuple[type[Collection[Any]], ...] = (tuple, list, set, frozenset, type({}.keys()))


def is_plain(value: Any) -> bool:
    """A value whose text says all of it."""
    if isinstance(value, _CONTAINERS):
        return all(is_plain(item) or has_name(item) for item in value)
    return isinstance(value, _PLAIN) or _is_numpy_scalar(value)


def shown(value: Any) -> str:
    """A plain value's text; `1`, `1.0` and `True` differ."""
    if isinstance(value, enum.Enum):
        return f"{qualified(type(value))}.{value.name}"
    if isinstance(value, _CONTAINERS):
        items = [shown(item) for item in value]
        if isinstance(value, (set, frozenset)):
            items.sort()
        kind = "" if type(value) in (list, tuple) else type(value).__name__
        opening, closing = "[]" if isinstance(value, list) else "()"
        return f"{kind}{opening}{', '.join(items)}{closing}"
    return qualified(value) if has_name(value) else repr(value)


def has_name(value: Any) -> bool:
    """A type, function or module: known by its name, and by what its code is."""
    return isinstance(value, (type, types.ModuleType, types.CodeType)) or (
        callable(value) and isinstance(getattr(value, "__qualname__", None), str)
    )


def qualified(value: Any) -> str:
    """The name by which a type, function or module is known, and what its code is."""
    if isinstance(value, types.CodeType):
        return f"code {value.co_qualname if hasattr(value, 'co_qualname') else value.co_name} #{_of(value)}"
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", type(value).__name__)
    full = f"{getattr(value, '__module__', '') or ''}.{name}"
    if isinstance(value, type):
        codes = [_code_of(f) for cls in value.__mro__ for f in functions_of(cls, _without(cls))]
        codes += [] if _GUARDS_CLASSES else _attributes(value)
        return f"{full} #{_joined(tuple(codes))}" if codes else full
    function = getattr(value, "__func__", value)
    return f"{full} #{_code_of(function)}" if isinstance(function, types.FunctionType) else full


def _attributes(cls: type) -> list[str]:
    """The plain values that a class has, whoever reads them."""
    own = {name: value for each in reversed(cls.__mro__) for name, value in vars(each).items()}
    plain = {name: value for name, value in own.items() if not name.startswith("__") and _is_scalar(value)}
    return [f"{name} = {shown(value)}" for name, value in sorted(plain.items())]


def _is_scalar(value: Any) -> bool:
    """Plain, and without classes: the class itself may be among what it holds."""
    if isinstance(value, _CONTAINERS):
        return all(map(_is_scalar, value))
    return isinstance(value, _PLAIN) and not isinstance(value, enum.Enum)


def _code_of(function: types.FunctionType) -> str:
    """Code and defaults: torch 2.11 has no guards on those of a function that it inlines."""
    given = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    own = _of(function.__code__)
    if not given:
        return own
    texts = [shown(value) if is_plain(value) or has_name(value) else type(value).__name__ for value in given]
    return _joined((own, *texts))


def _without(cls: type) -> tuple[str, ...]:
    """torch puts others in place of these two while a program runs."""
    return ("__init__", "__setstate__") if cls.__module__.startswith("torch.nn.") else ()


def bare(text: str) -> str:
    """Without what the code is: for people."""
    name, mark, _ = text.rpartition(" #")
    return name if mark else text


def tensor_properties(tensor: torch.Tensor) -> dict[str, Any]:
    """What a graph relies on in a tensor; a size that was marked as varying is None."""
    varying: set[int] = getattr(tensor, "_dynamo_dynamic_indices", set()) | getattr(
        tensor, "_dynamo_unbacked_indices", set()
    )
    strides = tensor.stride()
    fixed = [None if any(strides[dim] < stride for dim in varying) else stride for stride in strides]
    return {
        "class": bare(qualified(type(tensor))),
        "dtype": str(tensor.dtype),
        "device": str(tensor.device),
        "sizes": [None if i in varying else size for i, size in enumerate(tensor.shape)],
        "strides": fixed,
        "requires_grad": tensor.requires_grad,
    }


@functools.lru_cache(maxsize=1 << 16)
def _of(code: types.CodeType) -> str:
    return digest(code_text(code).encode("utf-8", "surrogateescape"))[:8]


@functools.lru_cache(maxsize=1 << 14)
def _joined(codes: tuple[str, ...]) -> str:
    return digest(" ".join(codes).encode())[:8]


def _is_numpy_scalar(value: Any) -> bool:
    return (
        type(value).__module__ == "numpy" and hasattr(value, "dtype") and getattr(value, "shape", None) == ()
    )
