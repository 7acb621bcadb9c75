"""Which dimensions of which arguments vary: as asked, as inferred from annotations, as marked.

`dynamic_arg_dims` maps an argument's name to an int, to several ints, or to a mapping of dims to
shape names; negative dims count from the end. An argument may be a tensor or a container of
tensors: lists, tuples, named tuples, dicts, dataclasses, objects with a dict `tensors`; each
tensor in it is marked.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from compdbg.compiler.config import DynamicShapesType
from compdbg.compiler.near_names import nearest

DimSpec = int | Sequence[int] | Mapping[int, str]
DynamicArgDims = Mapping[str, DimSpec]
"""Argument name -> the dimensions of it that vary."""

SAFE_SIZE = 4
"""Stands in for a first size of 0 or 1 while tracing: torch would make those constants."""


def asked_dims(function: Callable[..., Any], given: DynamicArgDims | None) -> dict[str, DimSpec]:
    """The dims that were asked for, or else those that the annotations imply.

    Raises:
        ValueError: a name that is no parameter, a value that is no dim, or nothing to go by.
    """
    parameters = inspect.signature(function).parameters
    name = function.__qualname__
    if given is None:
        inferred: dict[str, DimSpec] = dict.fromkeys(_annotated_with_tensors(function), 0)
        if not inferred:
            raise ValueError(
                f"no argument of {name} is annotated as a tensor; say dynamic_arg_dims={{'x': 0}} "
                "for an argument x whose first dimension varies"
            )
        return inferred
    for argument, dims in given.items():
        if argument not in parameters:
            raise ValueError(f"{name} has no argument {argument!r}{nearest(argument, parameters)}")
        _check_dims(name, argument, dims)
    return dict(given)


def dims_of(spec: DimSpec) -> dict[int, str | None]:
    """One argument's dims, each with its shape name if it was given one."""
    if isinstance(spec, Mapping):
        return dict(spec)
    return dict.fromkeys([spec] if isinstance(spec, int) else spec)


def _check_dims(function: str, argument: str, dims: Any) -> None:
    if isinstance(dims, bool) or not isinstance(dims, (int, Sequence, Mapping)) or isinstance(dims, str):
        raise ValueError(f"{function}: dims of {argument!r} are an int or several ints, not {dims!r}")
    several = [dims] if isinstance(dims, int) else list(dims)
    if not several or not all(isinstance(d, int) and not isinstance(d, bool) for d in several):
        raise ValueError(f"{function}: dims of {argument!r} are an int or several ints, not {dims!r}")


def _annotated_with_tensors(function: Callable[..., Any]) -> Iterator[str]:
    try:
        hints = typing.get_type_hints(function)
    except Exception:
        hints = {}
    for name, parameter in inspect.signature(function).parameters.items():
        hint = hints.get(name, parameter.annotation)
        if name != "return" and hint is not parameter.empty and _holds_tensors(hint):
            yield name


def _holds_tensors(hint: Any) -> bool:
    """A tensor, an optional one, or a container of tensors. Text is judged by the word."""
    if isinstance(hint, str):
        return "Tensor" in hint and "Callable" not in hint
    if isinstance(hint, type) and typing.get_origin(hint) is None:
        if issubclass(hint, torch.Tensor):
            return True
        if dataclasses.is_dataclass(hint) or hasattr(hint, "_fields"):
            return any(_holds_tensors(h) for h in getattr(hint, "__annotations__", {}).values())
        return False
    origin = typing.get_origin(hint)
    if origin is None or (isinstance(origin, type) and issubclass(origin, Callable)):  # type: ignore[arg-type]
        return False
    return any(_holds_tensors(part) for part in typing.get_args(hint))


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Every tensor of an argument, in the order of its containers."""
    if isinstance(value, torch.Tensor):
        yield value
    else:
        for _, part in _parts(value):
            yield from tensors_in(part)


def with_stand_ins(value: Any, make: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """The argument with each tensor replaced; containers are copied, everything else is kept."""
    if isinstance(value, torch.Tensor):
        return make(value)
    parts = {key: with_stand_ins(part, make) for key, part in _parts(value)}
    if not parts:
        return value
    if isinstance(value, dict):
        return _like(value, parts)
    if isinstance(value, (list, tuple)):
        items = [parts[i] for i in range(len(value))]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    clone = copy.copy(value)
    for name, part in parts.items():
        object.__setattr__(clone, name, part)
    return clone


def _parts(value: Any) -> list[tuple[Any, Any]]:
    if isinstance(value, dict):
        return list(value.items())
    if isinstance(value, (list, tuple)):
        return list(enumerate(value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
    inner = getattr(value, "tensors", None)
    return [("tensors", inner)] if isinstance(inner, dict) else []


def _like(value: dict[Any, Any], parts: dict[Any, Any]) -> Any:
    clone = copy.copy(value)
    clone.update(parts)
    return clone


def marked(
    arguments: Mapping[str, Any], asked: Mapping[str, DimSpec], shapes: DynamicShapesType
) -> dict[str, Any]:
    """Arguments to trace with: tensors that vary are stand-ins, marked, never of size 0 or 1.

    The caller's tensors are left as they are: marks on them would change what else they are
    compiled with. Two arguments that are one tensor stay one.
    """
    made: dict[int, torch.Tensor] = {}
    found = dict(arguments)
    for name, spec in asked.items():
        if arguments.get(name) is not None:
            make = functools.partial(_stand_in, name=name, dims=dims_of(spec), shapes=shapes, made=made)
            found[name] = with_stand_ins(arguments[name], make)
    return found


def _stand_in(
    tensor: torch.Tensor,
    name: str,
    dims: Mapping[int, str | None],
    shapes: DynamicShapesType,
    made: dict[int, torch.Tensor],
) -> torch.Tensor:
    for dim in dims:
        if not -tensor.ndim <= dim < tensor.ndim:
            raise ValueError(f"dynamic_arg_dims: {name!r} has {tensor.ndim} dimensions, none of them {dim}")
    positive = {dim % tensor.ndim: shape for dim, shape in dims.items()}
    result = made.get(id(tensor))
    if result is None:
        sizes = [SAFE_SIZE if i in positive and n < 2 else n for i, n in enumerate(tensor.shape)]
        result = tensor.view_as(tensor) if list(tensor.shape) == sizes else _resized(tensor, sizes)
        made[id(tensor)] = result
    _mark(result, positive, shapes)
    return result


def _resized(tensor: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    """Zeros of other sizes, with the dimensions in memory in the same order."""
    order = sorted(range(tensor.ndim), key=lambda d: (-tensor.stride(d), d))
    dense = tensor.new_zeros([sizes[d] for d in order])
    return dense.permute([order.index(d) for d in range(tensor.ndim)])


def _mark(tensor: torch.Tensor, dims: Mapping[int, str | None], shapes: DynamicShapesType) -> None:
    for dim, shape in dims.items():
        if shapes is DynamicShapesType.UNBACKED:
            torch._dynamo.decorators.mark_unbacked(
                tensor, dim, hint_override=tensor.shape[dim], shape_id=shape
            )
        else:
            torch._dynamo.mark_dynamic(tensor, dim)
