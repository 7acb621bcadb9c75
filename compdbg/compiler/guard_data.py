"""Dropped guards as data: where a value is found, what was asked of it, and what it was.

Kept with a compiled model, so that a later process can tell whether it was compiled for what that
process has: on a warm start nothing is traced, and torch's own guards can't be saved.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from msgspec import Struct

from compdbg.events import Where

_STATE = frozenset(
    ("AUTOGRAD_SAVED_TENSORS_HOOKS", "GRAD_MODE", "DETERMINISTIC_ALGORITHMS", "GLOBAL_STATE",
     "TORCH_FUNCTION_STATE", "DEFAULT_DEVICE", "SHAPE_ENV", "INFERENCE_MODE")
)  # fmt: skip
"""Guards on torch's global state are factors of the key; those on shapes come from the trace. Which
inputs are one tensor (`DUPLICATE_INPUT`) is in the key too: of parameters, and of the call."""

_SYMBOL = re.compile(r"\b[a-z]+\d+\b")
_LINE = re.compile(r"# (?P<file>\S+):(?P<line>\d+) in (?P<function>\S+)")
_ROOT = re.compile(r"\b[LG]\['(\w+)'\]")
_ITEM = re.compile(r"\['([^']+)'\]")

_KINDS = {
    "equals": "constant",
    "length": "constant",
    "keys": "constant",
    "has": "constant",
    "lacks": "constant",
    "type": "type",
    "is": "identity",
    "tensor": "type",
    "shape": "shape",
}


class Condition(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One dropped guard: `source` was `value`, in the sense of `operator`.

    `equals` compares the values' texts, `type` and `is` qualified names, `length` and `keys` a
    container's, `has` and `lacks` an attribute, `tensor` its properties; `shape` is an expression
    over sizes, whose sources are in `sizes`.
    """

    source: str
    operator: str
    value: Any
    guard: str = ""
    sizes: dict[str, str] = {}
    where: Where | None = None
    layer: str = "dynamo"
    """Who added it; what compiling a piece added is of `aot` or `inductor`."""

    @property
    def kind(self) -> str:
        return _KINDS[self.operator]

    @property
    def spoken(self) -> str:
        """The condition in the user's names."""
        return spoken(self.text)

    @property
    def text(self) -> str:
        """As an engineer would write it."""
        match self.operator:
            case "equals":
                return f"{self.source} == {self.value}"
            case "type":
                return f"type({self.source}) is {self.value}"
            case "length":
                return f"len({self.source}) == {self.value}"
            case "has" | "lacks":
                return f"{'' if self.operator == 'has' else 'not '}hasattr({self.source}, {self.value!r})"
            case "shape":
                return _SYMBOL.sub(lambda found: self.sizes.get(found[0], found[0]), str(self.value))
        return f"{self.source} {self.operator} {self.value}"


class GuardRecord(Struct, frozen=True):
    """All dropped guards of a model that can be kept, and how many of each type can't."""

    conditions: list[Condition] = []
    left_out: dict[str, int] = {}


def record_guards(entries: Iterable[Any], shapes: Iterable[Condition]) -> GuardRecord:
    """From the entries that torch gives a guard filter, and the trace's guards on shapes."""
    found: dict[tuple[str, str], Condition] = {}
    left_out: Counter[str] = Counter()
    for entry in entries:
        kind = entry.guard_type
        if kind in (*_STATE, "DUPLICATE_INPUT") or (
            kind == "TENSOR_MATCH" and _is_parameter(_name_of(entry.orig_guard))
        ):
            continue
        made = list(_conditions(entry)) if entry.has_value else []
        if not made:
            left_out[kind] += 1
        found.update(((condition.source, condition.operator), condition) for condition in made)
    return GuardRecord([*found.values(), *shapes], dict(left_out))


def spoken(source: str) -> str:
    """`self.layers.0.eps` for `L['self']._modules['layers']._modules['0'].eps`."""
    for noise in ("._modules", "._parameters", "._buffers"):
        source = source.replace(noise, "")
    source = _ITEM.sub(r".\1", _ROOT.sub(r"\1", source))
    return source.replace(".size()[", ".shape[")


def sources_of_symbols(environment: Any) -> dict[str, str]:
    """Where the size comes from that a symbol stands for, by the symbol's name."""
    found = environment.var_to_sources.items()
    return {str(symbol): _name_of(sources[0]) for symbol, sources in found if sources}


def shape_conditions(environment: Any) -> list[Condition]:
    """The guards on sizes that tracing added, in terms of where the sizes come from."""
    sources = sources_of_symbols(environment)
    conditions = []
    for guard in environment.guards:
        symbols = [str(symbol) for symbol in guard.expr.free_symbols]
        if symbols and all(symbol in sources for symbol in symbols):
            sizes = {symbol: sources[symbol] for symbol in sorted(symbols)}
            conditions.append(
                Condition(
                    source=", ".join(sizes.values()),
                    operator="shape",
                    value=str(guard.expr),
                    guard="SHAPE_ENV",
                    sizes=sizes,
                    where=_where_of_text(guard.sloc.maybe_user_loc),
                )
            )
    return conditions


def _conditions(entry: Any) -> Iterator[Condition]:
    guard = entry.orig_guard
    source = _name_of(guard)
    where = _where(getattr(guard, "user_stack", None))
    for operator, value in _asked(entry.guard_type, guard, entry.value):
        yield Condition(source=source, operator=operator, value=value, guard=entry.guard_type, where=where)


def _asked(kind: str, guard: Any, value: Any) -> Iterator[tuple[str, Any]]:
    match kind:
        case "CONSTANT_MATCH" | "EQUALS_MATCH" | "BOOL_MATCH" | "NONE_MATCH":
            if is_plain(value):
                yield "equals", shown(value)
        case "TYPE_MATCH":
            yield "type", qualified(type(value))
        case "TENSOR_MATCH":
            yield "tensor", tensor_properties(value)
        case "SEQUENCE_LENGTH" | "DICT_LENGTH" | "LIST_LENGTH" | "EMPTY_NN_MODULE_HOOKS_DICT":
            yield "length", len(value)
        case "DICT_KEYS_MATCH" | "DICT_KEYS" | "DICT_CONST_KEYS":
            if all(is_plain(key) for key in value):
                yield "keys", [shown(key) for key in value]
        case "MODULE_MATCH" | "BUILTIN_MATCH" | "CLOSURE_MATCH" | "FUNCTION_MATCH" | "CLASS_MATCH":
            yield "is", qualified(value)
        case "HASATTR" | "NOT_PRESENT_IN_GENERIC_DICT":
            attribute = getattr(guard.create_fn, "keywords", {}).get("attr")
            if attribute is not None:
                has = kind == "HASATTR" and hasattr(value, attribute)
                yield "has" if has else "lacks", attribute


def _is_parameter(source: str) -> bool:
    """Parameters and buffers are compared as a whole, by the cache's key."""
    return "._parameters[" in source or "._buffers[" in source


def is_plain(value: Any) -> bool:
    """A value whose text says all of it."""
    if isinstance(value, (tuple, list, frozenset)):
        return all(is_plain(item) for item in value)
    plain = (int, float, complex, str, bytes, torch.dtype, torch.device, torch.layout, torch.memory_format)
    return value is None or value is Ellipsis or isinstance(value, plain)


def shown(value: Any) -> str:
    """A plain value's text; `1`, `1.0` and `True` differ."""
    return repr(value)


def qualified(value: Any) -> str:
    """The name by which a type, function or module is known."""
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", type(value).__name__)
    return f"{getattr(value, '__module__', '')}.{name}"


def tensor_properties(tensor: torch.Tensor) -> dict[str, Any]:
    """What a graph relies on in a tensor; a size that was marked as varying is None."""
    varying: set[int] = getattr(tensor, "_dynamo_dynamic_indices", set()) | getattr(
        tensor, "_dynamo_unbacked_indices", set()
    )
    strides = tensor.stride()
    fixed = [None if any(strides[dim] < stride for dim in varying) else stride for stride in strides]
    return {
        "class": qualified(type(tensor)),
        "dtype": str(tensor.dtype),
        "device": str(tensor.device),
        "sizes": [None if i in varying else size for i, size in enumerate(tensor.shape)],
        "strides": fixed,
        "requires_grad": tensor.requires_grad,
    }


def _name_of(thing: Any) -> str:
    name = getattr(thing, "name", "")
    return str(name() if callable(name) else name)


def _where_of_text(text: str | None) -> Where | None:
    """From what torch notes of a guard on sizes: `# served/model.py:12 in forward`, the file shortened."""
    found = _LINE.search(text or "")
    if found is None:
        return None
    files = (getattr(module, "__file__", None) or "" for module in list(sys.modules.values()))
    short = found["file"]
    whole = next((file for file in files if file.endswith(short)), short)
    return Where(whole, int(found["line"]), found["function"])


def _where(stack: Any) -> Where | None:
    """The innermost line of a user's stack."""
    frames = list(stack) if stack else []
    if not frames:
        return None
    last = frames[-1]
    return Where(last.filename, last.lineno or 0, last.name)
