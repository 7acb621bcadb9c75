"""What a pass is: a callable over a graph, with a name, a range it is for, and a sound identity.

A pass's `uuid` covers the code of its class, all that this uses (`code_hash`), and the values that
the pass was made with; an artifact compiled with another version of it is then never reused.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, ParamSpec, TypeVar

import torch
from torch import fx
from torch._inductor.custom_graph_pass import CustomGraphPass
from torch._subclasses.fake_tensor import FakeTensorMode, unset_fake_temporarily

from compdbg.compiler.code_hash import code_hash, settings
from compdbg.compiler.config_values import ConfigError
from compdbg.compiler.dump import NOWHERE, Dump
from compdbg.compiler.near_names import nearest
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
    weights: frozenset[int] = frozenset()
    """Which inputs are parameters or buffers of the model that no call of the graph writes to."""


_contexts: list[PassContext] = []


def get_pass_context() -> PassContext:
    """The context of the compile under way; that of no range outside one."""
    return _contexts[-1] if _contexts else PassContext()


@contextmanager
def pass_context(
    compile_range: Range, key: str = "", dump: Dump = NOWHERE, weights: frozenset[int] = frozenset()
) -> Iterator[PassContext]:
    """Passes inside the block run for this range."""
    _contexts.append(PassContext(compile_range, dump, key, weights))
    try:
        yield _contexts[-1]
    finally:
        _contexts.pop()


def is_weight(given: fx.Node) -> bool:
    """Whether a node is an input that is a weight: what is worked out from it once can be kept.

    What lies between our inputs and those of the graph that passes see, AOTAutograd has noted on these, by
    `PlainAOTInput` of `torch._functorch._aot_autograd.descriptors` (2.11 to 2.14.1): without it, none is.
    """
    came_from: Any = given.meta.get("desc")
    plain = type(came_from).__name__ == "PlainAOTInput"
    return plain and came_from.idx in get_pass_context().weights


class InductorPass(CustomGraphPass):  # type: ignore[misc]
    """A pass over one graph after Inductor's own. Subclasses implement `__call__`."""

    looks_for = ""
    """Of a pass that counts matches (`matched_count`) without torch's pattern matcher: at which operator."""

    @property
    def name(self) -> str:
        return type(self).__name__

    def is_applicable_for_range(self, compile_range: Range) -> bool:
        """Whether the pass runs for graphs compiled for this range."""
        return True

    def refusal(self, graph: fx.Graph, compile_range: Range) -> str:
        """Why the pass is not to run over this graph; empty where it is."""
        if self.is_applicable_for_range(compile_range):
            return ""
        return f"not applicable for the range {compile_range}"

    def uuid(self) -> str:
        """Equal for equal code and equal settings only."""
        classes = [cls for cls in type(self).__mro__ if issubclass(cls, InductorPass)]
        return hash_dict({"code": code_hash(*classes), "settings": settings(self)})


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
        return str(own()) if callable(own) else code_hash(self.function)


def as_pass(given: Any) -> InductorPass:
    """A pass from what a configuration names: a pass, a function, `module:object`, or an entry point.

    Raises:
        ConfigError: it names nothing, or no pass.
    """
    if isinstance(given, str):
        if ":" not in given:
            from compdbg.compiler.passes.third_party import third_party_pass

            return third_party_pass(given)
        found = _named(given)
        given = found() if isinstance(found, type) else found
    if isinstance(given, InductorPass):
        return given
    if not callable(given):
        raise ConfigError(f"inductor_passes: {given!r} is no pass: neither an InductorPass nor a function")
    return CallableInductorPass(given)


def _named(text: str) -> Any:
    """The object that `module:object` names; what a module of the user's raises is the user's own."""
    module, _, path = text.partition(":")
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise ConfigError(f"inductor_passes: {text!r}: there is no module {error.name!r} to import") from None
    for step in path.split("."):
        if not hasattr(found, step):
            where = getattr(found, "__name__", module)
            hint = nearest(step, dir(found), few=False)
            raise ConfigError(f"inductor_passes: {text!r}: {where} has no {step!r}{hint}")
        found = getattr(found, step)
    return found


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
