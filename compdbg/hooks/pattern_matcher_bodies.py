"""What a custom op is made of: its own Python body, traced to ATen ops on fake tensors.

Only a body that is nothing but torch is traced: before, its bytecode is read, and whatever could
have an effect of its own (another module, a print, an attribute set, a kernel) rules it out.
"""

from __future__ import annotations

import contextlib
import dis
import sys
from collections.abc import Callable, Iterable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

from msgspec import Struct

from compdbg.hooks.pattern_matcher_entries import cells
from compdbg.hooks.pattern_matcher_kinds import is_trivial
from compdbg.hooks.pattern_matcher_words import base_name, is_node

MIN_OPS = 3
"""A body of fewer different ops says too little to be recognised."""


class Body(Struct, frozen=True):
    """What an op computes: its ops by bare name, and which of them reads which, past views and casts."""

    names: tuple[str, ...]
    edges: frozenset[tuple[int, int]]


_RMS_NORM = Body(("pow", "mean", "add", "rsqrt", "mul"), frozenset(((0, 1), (1, 2), (2, 3), (3, 4))))
_WELL_KNOWN = {"rms_norm": _RMS_NORM}
"""Ops of libraries that have no Python body to trace, by a part of their name."""

_SAFE_BUILTINS = {
    "len",
    "range",
    "float",
    "int",
    "bool",
    "min",
    "max",
    "abs",
    "tuple",
    "list",
    "isinstance",
    "slice",
}
_UNSAFE_NAMES = {
    "save",
    "load",
    "item",
    "tolist",
    "numpy",
    "synchronize",
    "manual_seed",
    "seed",
    "compile",
    "ops",
}
_WRITES = {"STORE_GLOBAL", "DELETE_GLOBAL", "STORE_ATTR", "DELETE_ATTR", "IMPORT_NAME", "STORE_NAME"}
_bodies: dict[Any, Body | None] = {}


def calls_of(graph: Any) -> dict[Any, tuple[Any, ...]]:
    """Custom ops of a traced pattern that have a Python body, each with stand-ins for its arguments."""
    return {
        node.target: tuple(_stand_in(argument) for argument in node.args)
        for node in graph.nodes
        if node.op == "call_function" and _python_body(node.target) is not None and not node.kwargs
    }


def body_of(op: Any, arguments: tuple[Any, ...] | None) -> Body | None:
    """What `op` is made of; None if that is not known."""
    if op not in _bodies:
        known = next((ops for part, ops in _WELL_KNOWN.items() if part in base_name(op)), None)
        _bodies[op] = known if arguments is None else (_traced_body(op, arguments) or known)
    return _bodies[op]


class _Tensor:
    """Stands for a tensor argument: its shape, dtype and device."""

    def __init__(self, value: Any) -> None:
        self.shape = tuple(int(s) if isinstance(s, int) else 2 for s in value.shape)
        self.dtype = value.dtype
        self.device = value.device


def _stand_in(argument: Any) -> Any:
    if not is_node(argument):
        return argument
    value = argument.meta.get("val")
    return _Tensor(value) if hasattr(value, "dtype") and hasattr(value, "shape") else value


def _python_body(op: Any) -> Any:
    """The function behind a `torch.library.custom_op`, if every device uses the same."""
    library = sys.modules.get("torch._library.custom_ops")
    schema = getattr(op, "_schema", None)
    if library is None or schema is None or getattr(op, "namespace", "aten") in ("aten", "prims"):
        return None
    definition = getattr(library, "OPDEFS", {}).get(schema.name)
    return getattr(definition, "_init_fn", None)


def _traced_body(op: Any, arguments: tuple[Any, ...]) -> Body | None:
    function = _python_body(op)
    if not isinstance(function, FunctionType) or not is_plain_torch(function):
        return None
    try:
        with _aside() as torch:
            graph = _trace(torch, function, arguments)
    except Exception:
        return None
    nodes = [n for n in graph.nodes if n.op == "call_function" and not is_trivial(n.target)]
    names = tuple(base_name(n.target) for n in nodes)
    edges = {(nodes.index(p), i) for i, n in enumerate(nodes) for p in producers(n)}
    return Body(names, frozenset(edges)) if len(set(names)) >= MIN_OPS else None


def producers(node: Any) -> list[Any]:
    """The calls that a node reads, past views and casts."""
    return _past_trivial(node, lambda n: n.all_input_nodes)


def consumers(node: Any) -> list[Any]:
    """The calls that read a node, past views and casts."""
    return _past_trivial(node, lambda n: n.users)


def _past_trivial(node: Any, step: Callable[[Any], Iterable[Any]]) -> list[Any]:
    found: dict[Any, None] = {}
    waiting = list(step(node))
    while waiting:
        each = waiting.pop()
        if each.op not in ("call_function", "call_method"):
            continue
        if is_trivial(each.target):
            waiting.extend(step(each))
        else:
            found[each] = None
    return list(found)


@contextlib.contextmanager
def _aside() -> Iterator[Any]:
    """Away from the compile under way: its fake mode, tracing context and autograd stay untouched."""
    torch: Any = sys.modules["torch"]
    with (
        torch.no_grad(),
        torch._guards.tracing(None),
        sys.modules["torch._subclasses.fake_tensor"].unset_fake_temporarily(),
    ):
        yield torch


def _trace(torch: Any, function: FunctionType, arguments: tuple[Any, ...]) -> Any:
    with torch._subclasses.fake_tensor.FakeTensorMode():
        real = [
            torch.empty(a.shape, dtype=a.dtype, device=a.device) if isinstance(a, _Tensor) else a
            for a in arguments
        ]
    places = [i for i, a in enumerate(arguments) if isinstance(a, _Tensor)]

    def call(*tensors: Any) -> Any:
        given = list(real)
        for place, tensor in zip(places, tensors, strict=True):
            given[place] = tensor
        return function(*given)

    make_fx = sys.modules["torch.fx.experimental.proxy_tensor"].make_fx
    table = sys.modules["torch._inductor.decomposition"].select_decomp_table()
    return make_fx(call, table)(*(real[i] for i in places)).graph


def is_plain_torch(function: FunctionType, depth: int = 3) -> bool:
    """Whether a function's bytecode calls nothing but torch, safe builtins, and functions like it."""
    names = {**function.__globals__, **cells(function)}
    for instruction in _instructions(function.__code__):
        if instruction.opname in _WRITES or instruction.argval in _UNSAFE_NAMES:
            return False
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_DEREF", "LOAD_NAME"):
            name = str(instruction.argval)
            if name in names and not _is_safe(names[name], depth):
                return False
            if name not in names and instruction.opname != "LOAD_DEREF" and name not in _SAFE_BUILTINS:
                return False
    return True


def _instructions(code: CodeType) -> Iterator[dis.Instruction]:
    yield from dis.get_instructions(code)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _instructions(constant)


def _is_safe(value: Any, depth: int) -> bool:
    if isinstance(value, ModuleType):
        return value.__name__ == "math" or value.__name__.partition(".")[0] == "torch"
    if isinstance(value, FunctionType):
        torchs = value.__module__.partition(".")[0] == "torch"
        return torchs or (depth > 0 and is_plain_torch(value, depth - 1))
    return isinstance(value, (int, float, bool, str, tuple, type(None))) or type(value).__module__ == "torch"
