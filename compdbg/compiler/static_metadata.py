"""Attention metadata as an input of a capture: a twin whose tensors stay where the capture reads them.

A capture freezes what it reads. Tensors of the metadata are copied into the twin's before each
replay; those that an operator writes to (caches) are the caller's own, and have to stay where they
are. Plain values (a count, a longest length) can't follow: those that were read while the capture
was made must be the same on a replay, or the call has to run without it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

import torch

from compdbg.compiler.arena import Arena, Copies, copy_values
from compdbg.compiler.forward_context import ForwardContext


class Mismatch(NamedTuple):
    """Why metadata can't be taken: a value that the capture has read as another one."""

    name: str
    captured: str
    seen: str
    kind: str
    """`changed`: another value; `moved`: a tensor that is written to is elsewhere; `form`: it has
    other tensors, or tensors of other shapes."""


class StaticMetadata:
    """The twin of the metadata of one captured size."""

    def __init__(self, padded: int, arena: Arena) -> None:
        self.twin: Any = None
        self._padded = padded
        self._arena = arena
        self._plain: dict[str, Any] = {}
        self._tensors: dict[str, torch.Tensor] = {}
        self._written: set[str] = set()
        self._read: set[str] | None = None

    @contextmanager
    def given(self, metadata: Any, context: ForwardContext, *, noting: bool) -> Iterator[None]:
        """Make the twin for a call that is not a replay; with `noting`, see what a capture reads of it."""
        fitted = self._fit(metadata)
        sources = dict(_leaves(fitted, torch.Tensor))
        self._tensors = {name: self._place(name, source) for name, source in sources.items()}
        self._copied = [name for name in sources if name not in self._written]
        self._copies = Copies([self._tensors[name] for name in self._copied])
        self.twin = context.attn_metadata = _rebuilt(fitted, "", self._tensors)
        self._plain = {name: value for name, value in _leaves(fitted, None) if name not in sources}
        with self._noting_reads() if noting else nullcontext():
            yield
        for name, source in sources.items():
            twin = self._tensors[name]
            if twin is not source and not torch.equal(twin, source):
                self._written.add(name)
                copy_values(source, twin)

    def _place(self, name: str, source: torch.Tensor) -> torch.Tensor:
        if name in self._written:
            return source
        target = self._arena.take(name, source)
        copy_values(target, source)
        return target

    def update(self, metadata: Any) -> Mismatch | None:
        """Copy metadata to where the capture reads it; a mismatch, and nothing done, if it doesn't fit."""
        leaves = list(_leaves(self._fit(metadata), None))
        tensors = {name: value for name, value in leaves if isinstance(value, torch.Tensor)}
        for name, target in self._tensors.items():
            source = tensors.get(name)
            if source is None or source.shape != target.shape or source.dtype is not target.dtype:
                return Mismatch(name, _form(target), _form(source), "form")
            if name in self._written and source.data_ptr() != target.data_ptr():
                return Mismatch(name, hex(target.data_ptr()), hex(source.data_ptr()), "moved")
        if len(tensors) != len(self._tensors):
            extra = next(name for name in tensors if name not in self._tensors)
            return Mismatch(extra, "None", _form(tensors[extra]), "form")
        for name, value in leaves:
            if name in tensors or (self._read is not None and name.partition(".")[0] not in self._read):
                continue
            if name not in self._plain or not _equal(self._plain[name], value):
                kind = "changed" if name in self._plain else "form"
                return Mismatch(name, repr(self._plain.get(name))[:200], repr(value)[:200], kind)
        self._copies([tensors[name] for name in self._copied])
        return None

    @contextmanager
    def _noting_reads(self) -> Iterator[None]:
        cls = type(self.twin)
        try:
            self.twin.__class__ = _noting(cls, read := set[str]())
        except TypeError:
            yield
            return
        try:
            yield
        finally:
            self.twin.__class__ = cls
            self._read = read

    def _fit(self, metadata: Any) -> Any:
        pad = getattr(metadata, "pad_to", None)
        return metadata if pad is None else pad(self._padded)


def tensors_of(metadata: Any) -> list[tuple[str, torch.Tensor]]:
    """All tensors in metadata, with their dotted names."""
    return list(_leaves(metadata, torch.Tensor))


def _noting(cls: type, read: set[str]) -> type:
    """A class like `cls` whose instances note the names of the attributes that are read."""

    def __getattribute__(self: Any, name: str) -> Any:
        read.add(name)
        return object.__getattribute__(self, name)

    return type(cls.__name__, (cls,), {"__slots__": (), "__getattribute__": __getattribute__})


def _parts(value: Any) -> list[tuple[str, Any]] | None:
    """Name and value of what a container or a plain object holds; None for anything else."""
    if value is None or isinstance(value, (torch.Tensor, str, bytes, int, float, bool, type)):
        return None
    if isinstance(value, Mapping):
        return [(str(key), item) for key, item in value.items()]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return list(zip(value._fields, value, strict=True))
    if isinstance(value, (list, tuple)):
        return [(str(i), item) for i, item in enumerate(value)]
    names = _attributes(value)
    return None if not names else [(name, getattr(value, name)) for name in names]


def _attributes(value: Any) -> list[str]:
    if callable(value):
        return []
    slots = [name for cls in type(value).__mro__ for name in getattr(cls, "__slots__", ())]
    names = [*getattr(value, "__dict__", {}), *slots]
    return [name for name in dict.fromkeys(names) if not name.startswith("__") and hasattr(value, name)]


def _leaves(value: Any, kind: type | None, name: str = "") -> Iterator[tuple[str, Any]]:
    """All values inside that hold no others, with their dotted names; with a `kind` only those."""
    parts = _parts(value)
    if parts is None:
        if kind is None or isinstance(value, kind):
            yield name, value
        return
    for part, item in parts:
        yield from _leaves(item, kind, f"{name}.{part}" if name else part)


def _rebuilt(value: Any, name: str, tensors: Mapping[str, torch.Tensor]) -> Any:
    """A copy of the structure with its tensors replaced."""
    if name in tensors:
        return tensors[name]
    parts = _parts(value)
    if parts is None:
        return value
    inside = {part: _rebuilt(item, f"{name}.{part}" if name else part, tensors) for part, item in parts}
    if isinstance(value, Mapping):
        return type(value)((key, inside[str(key)]) for key in value)  # type: ignore[call-arg]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(**inside)
    if isinstance(value, (list, tuple)):
        return type(value)(inside.values())
    twin = copy.copy(value)
    for part, item in inside.items():
        object.__setattr__(twin, part, item)
    return twin


def _equal(one: Any, other: Any) -> bool:
    try:
        return one is other or bool(one == other)
    except Exception:
        return False


def _form(tensor: torch.Tensor | None) -> str:
    return "None" if tensor is None else f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"
