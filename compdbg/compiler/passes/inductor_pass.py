"""What a pass is: a callable over a graph, with a name, a range it is for, and a sound identity.

A pass's `uuid` covers the code of its class and of the file that it stands in, and the values that
it was made with; an artifact compiled with another version of the pass is then never reused.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, ParamSpec, TypeVar

import torch
from torch import fx
from torch._inductor.custom_graph_pass import CustomGraphPass
from torch._subclasses.fake_tensor import FakeTensorMode, unset_fake_temporarily

from compdbg.compiler.dump import NOWHERE, Dump
from compdbg.compiler.ranges import STATIC, Range

P = ParamSpec("P")
R = TypeVar("R")


class PassContext(NamedTuple):
    """What is being compiled while passes run."""

    compile_range: Range = STATIC
    dump: Dump = NOWHERE
    """Where passes write the graph before and after, if anywhere."""
    key: str = ""
    """Our cache's key of what is compiled: torch's caches know less, and must not hit where it misses."""


_contexts: list[PassContext] = []


def get_pass_context() -> PassContext:
    """The context of the compile under way; that of no range outside one."""
    return _contexts[-1] if _contexts else PassContext()


@contextmanager
def pass_context(compile_range: Range, key: str = "", dump: Dump = NOWHERE) -> Iterator[PassContext]:
    """Passes inside the block run for this range."""
    _contexts.append(PassContext(compile_range, dump, key))
    try:
        yield _contexts[-1]
    finally:
        _contexts.pop()


class InductorPass(CustomGraphPass):  # type: ignore[misc]
    """A pass over one graph after Inductor's own. Subclasses implement `__call__`."""

    @property
    def name(self) -> str:
        return type(self).__name__

    def is_applicable_for_range(self, compile_range: Range) -> bool:
        """Whether the pass runs for graphs compiled for this range."""
        return True

    def uuid(self) -> str:
        """Equal for equal code and equal settings only."""
        classes = [cls for cls in type(self).__mro__ if issubclass(cls, InductorPass)]
        return hash_dict({"code": [source_hash(cls) for cls in classes], "settings": _settings(self)})


class CallableInductorPass(InductorPass):
    """A function over a graph as a pass. `uuid` is that of its code, unless one is given."""

    def __init__(self, function: Callable[[fx.Graph], object], uuid: Any = None) -> None:
        self.function = function
        self._uuid = uuid

    @property
    def name(self) -> str:
        return getattr(self.function, "__name__", type(self.function).__name__)

    def __call__(self, graph: fx.Graph) -> None:
        self.function(graph)

    def uuid(self) -> str:
        if self._uuid is not None:
            return str(self._uuid)
        own = getattr(self.function, "uuid", None)
        return str(own()) if callable(own) else source_hash(self.function)


def as_pass(given: Any) -> InductorPass:
    """A pass from what a configuration names: a pass, a function, or `module:object`."""
    if isinstance(given, str):
        module, _, path = given.partition(":")
        found: Any = __import__(module, fromlist=["_"])
        for step in path.split("."):
            found = getattr(found, step)
        given = found() if isinstance(found, type) else found
    return given if isinstance(given, InductorPass) else CallableInductorPass(given)


def source_hash(thing: Any) -> str:
    """A hash of the code of a class or function, and of the whole file that defines it."""
    thing = getattr(thing, "__func__", thing)
    if not isinstance(thing, (type, types.FunctionType)):
        thing = type(thing)
    return _source_hash(thing)


@functools.cache
def _source_hash(thing: type | types.FunctionType) -> str:
    digest = hashlib.sha256(f"{thing.__module__}.{thing.__qualname__}".encode())
    functions = [thing] if isinstance(thing, types.FunctionType) else list(_functions(thing))
    for function in functions:
        digest.update(code_bytes(function.__code__))
        for cell in function.__closure__ or ():
            digest.update(repr(_content(cell)).encode())
    try:
        file = inspect.getsourcefile(thing)
        if file is not None:
            with open(file, "rb") as source:
                digest.update(source.read())
    except (OSError, TypeError):
        pass
    return digest.hexdigest()[:32]


def _functions(cls: type) -> Iterator[types.FunctionType]:
    for value in vars(cls).values():
        inner = getattr(value, "fget", None) or getattr(value, "__func__", None) or value
        if isinstance(inner, types.FunctionType):
            yield inner


def code_bytes(code: types.CodeType) -> bytes:
    """What a code object does, without the place that it stands in."""
    constants = [code_bytes(c) if inspect.iscode(c) else repr(c).encode() for c in code.co_consts]
    return b"|".join([code.co_code, repr(code.co_names).encode(), *constants])


def _content(cell: types.CellType) -> Any:
    try:
        value = cell.cell_contents
    except ValueError:
        return None
    return value if isinstance(value, (int, float, str, bool, tuple, type(None))) else type(value)


def _settings(instance: Any) -> dict[str, str]:
    """The plain values that an instance was made with; names with an underscore are its state."""
    plain = (int, float, str, bool, tuple, list, dict, set, frozenset, torch.dtype, type(None))
    values = ((key, value) for key, value in sorted(vars(instance).items()) if key[0] != "_")
    return {key: repr(value) for key, value in values if isinstance(value, plain)}


def hash_dict(values: dict[str, Any]) -> str:
    """A hash of plain data."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def enable_fake_mode(function: Callable[P, R]) -> Callable[P, R]:
    """Run with fake tensors: patterns are traced without memory and without a device."""

    @functools.wraps(function)
    def with_fakes(*args: P.args, **kwargs: P.kwargs) -> R:
        with torch._guards.tracing(None), unset_fake_temporarily(), FakeTensorMode():
            return function(*args, **kwargs)

    return with_fakes
