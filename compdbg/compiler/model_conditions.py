"""What a compiled model relies on that its cache key does not say, and how a call is told from another."""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from msgspec import Struct

from compdbg.compiler import cache_factors as factors_of
from compdbg.compiler.guard_data import GuardRecord


class Conditions(Struct, frozen=True):
    """What an entry relies on that its key does not say."""

    sources: dict[str, str] = {}
    operators: dict[str, str] = {}
    guards: GuardRecord = GuardRecord()


def call_signature(arguments: Mapping[str, Any]) -> str:
    """How a call looks, without sizes: kinds of arguments, values of plain ones, which are one tensor."""
    seen: dict[int, int] = {}
    return ", ".join(f"{name}: {_described(value, seen)}" for name, value in list(arguments.items())[1:])


def _described(value: Any, seen: dict[int, int]) -> str:
    if isinstance(value, torch.Tensor):
        number = seen.setdefault(id(value), len(seen))
        return f"{value.dtype} {value.ndim}d {value.device.type} #{number}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_described(item, seen)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__}({', '.join(_described(item, seen) for item in value)})"
    plain = isinstance(value, (int, float, str, bool, type(None), torch.dtype, torch.device))
    return repr(value) if plain else f"{type(value).__module__}.{type(value).__qualname__}"


def traced_sources(result: Any) -> dict[str, str]:
    """The content, by hash, of each file whose code was traced, less torch's own."""
    home = str(Path(torch.__file__).parent)
    modules = {source.module for source in result.source_info().inlined_sources}
    files = {module: _file_of_module(module) for module in sorted(modules)}
    return {
        f"source {module} {file}": factors_of.file_hash(file)
        for module, file in files.items()
        if file is not None and not file.startswith(home)
    }


def file_of(name: str) -> str:
    """The file behind a source factor, where its module stands now."""
    _, module, file = name.split(" ", 2)
    return _file_of_module(module) or file


def _file_of_module(module: str) -> str | None:
    loaded = sys.modules.get(module)
    try:
        return None if loaded is None else inspect.getsourcefile(loaded)
    except TypeError:
        return None


def cells_of(function: Callable[..., Any]) -> dict[str, Any]:
    """A function's closure, cell by cell: named in an entry, and given again when it is loaded."""
    names = function.__code__.co_freevars
    return {f"closure {name}": cell for name, cell in zip(names, function.__closure__ or (), strict=True)}


def closed_over(function: Callable[..., Any]) -> dict[str, Any]:
    return {
        name.removeprefix("closure "): cell.cell_contents
        for name, cell in cells_of(function).items()
        if cell != types.CellType()
    }
