"""A dispatch mode that stops a graph before it writes to memory that is the program's.

What an operator says in its schema is believed; batch norms write to running statistics without saying
so. An operator that is none of torch's gets copies of that memory, and is caught by what it did to them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from compdbg.hooks.op_checks import bits

TORCHS = ("aten", "prims", "prim", "inductor", "quantized", "c10d_functional", "_c10d_functional")


class Writes(Exception):
    """An operator was about to write to the program's memory, or may have been."""


def write_guard(tensors: Iterable[Any]) -> Any:
    """A mode in which a write to the memory of any of `tensors` raises `Writes` before it is done."""
    modes: Any = sys.modules["torch.utils._python_dispatch"]
    memory = {at for tensor in tensors if (at := place(tensor))}

    class Guard(modes.TorchDispatchMode):  # type: ignore[misc]
        supports_higher_order_operators = True

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return _guarded(func, args, kwargs or {}, memory)

    return Guard()


def _guarded(
    func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], memory: set[int]
) -> Any:
    schema = getattr(func, "_schema", None)
    if schema is None:
        raise Writes  # a higher-order operator: what it calls is not seen here
    if any(place(tensor) in memory for tensor in written(schema, args, kwargs)):
        raise Writes
    if str(getattr(func, "namespace", "")) in TORCHS:
        return func(*args, **kwargs)
    copies: list[tuple[Any, Any]] = []

    def copied(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [copied(item) for item in value]
        if place(value) not in memory:
            return value
        copies.append((value, value.clone()))
        return copies[-1][1]

    result = func(*map(copied, args), **{name: copied(value) for name, value in kwargs.items()})
    torch = sys.modules["torch"]
    if not all(torch.equal(bits(copy), bits(original)) for original, copy in copies):
        raise Writes
    return result


def written(schema: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Any]:
    """The tensors that a call writes to."""
    given = {declared.name: kwargs.get(declared.name) for declared in schema.arguments}
    given.update(zip((declared.name for declared in schema.arguments), args, strict=False))
    trains = given.get("training") or given.get("train") or given.get("use_input_stats")
    for declared in schema.arguments:
        says = declared.alias_info is not None and declared.alias_info.is_write
        if says or (trains and declared.name in ("running_mean", "running_var")):
            value = given[declared.name]
            yield from value if isinstance(value, (list, tuple)) else (value,)


def place(value: Any) -> int:
    """The address of a tensor's memory; 0 for what has none, or none that can be told."""
    if not isinstance(value, sys.modules["torch"].Tensor):
        return 0
    try:
        return int(value.untyped_storage().data_ptr())
    except (RuntimeError, NotImplementedError):
        return 0
