"""Dropped guards as data: where a value is found, what was asked of it, and what it was.

Kept with a compiled model, so that a later process can tell whether it was compiled for what that
process has: on a warm start nothing is traced, and torch's own guards can't be saved.
"""

from __future__ import annotations

import re
import sys
from typing import Any

from msgspec import Struct

from compdbg.compiler.guard_values import bare
from compdbg.events import Where

_SYMBOL = re.compile(r"\b[a-z]+\d+\b")
_LINE = re.compile(r"# (?P<file>\S+):(?P<line>\d+) in (?P<function>\S+)")
_ROOT = re.compile(r"\b[LG]\['(\w+)'\]")
_ITEM = re.compile(r"\['([^']+)'\]")
_OF_CLASS = re.compile(r"dict\(type\((?P<owner>.+?)\)(?:\.__mro__\[\d+\])?\.__dict__\)\['(?P<name>\w+)'\]")

_KINDS = {
    "equals": "constant",
    "length": "constant",
    "keys": "constant",
    "contains": "constant",
    "without": "constant",
    "has": "constant",
    "lacks": "constant",
    "not own": "constant",
    "present": "constant",
    "type": "type",
    "is": "identity",
    "same": "identity",
    "tensor": "type",
    "shape": "shape",
}
_TEXTS = {
    "equals": "{source} == {value}",
    "type": "type({source}) is {value}",
    "length": "len({source}) == {value}",
    "contains": "{value} in {source}",
    "without": "{value} not in {source}",
    "has": "hasattr({source}, '{value}')",
    "lacks": "not hasattr({source}, '{value}')",
    "not own": "not hasattr({source}, '{value}')",
    "present": "{source} is not None",
    "same": "{value} is {source}",
}


class Condition(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One dropped guard: `source` was `value`, in the sense of `operator`.

    `equals` compares the values' texts, `type` and `is` names and code; `length`, `keys`, `contains`
    and `without` ask of a container, `has`, `lacks` and `not own` of an attribute; `present` is any
    value, `same` the object at another source; `tensor` has properties, and `shape` an expression
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
        if self.operator == "shape":
            return _SYMBOL.sub(lambda found: self.sizes.get(found[0], found[0]), str(self.value))
        value = bare(self.value) if self.operator in ("type", "is") else self.value
        pattern = _TEXTS.get(self.operator, f"{{source}} {self.operator} {{value}}")
        return pattern.format(source=self.source, value=value)


class GuardRecord(Struct, frozen=True):
    """All dropped guards of a model that can be kept, and how many of each type can't."""

    conditions: list[Condition] = []
    left_out: dict[str, int] = {}
    unknown: list[str] = []
    """Those that can't, one by one: `TYPE on source`."""


def spoken(source: str) -> str:
    """`self.layers.0.eps` for `L['self']._modules['layers']._modules['0'].eps`."""
    source = _OF_CLASS.sub(r"\g<owner>.\g<name>", source)
    for noise in ("._modules", "._parameters", "._buffers"):
        source = source.replace(noise, "")
    source = _ITEM.sub(r".\1", _ROOT.sub(r"\1", source))
    return source.replace(".size()[", ".shape[")


def name_of(thing: Any) -> str:
    """The name of a guard or source, as torch writes it."""
    name = getattr(thing, "name", "")
    return str(name() if callable(name) else name)


def sources_of_symbols(environment: Any) -> dict[str, str]:
    """Where the size comes from that a symbol stands for, by the symbol's name."""
    found = environment.var_to_sources.items()
    return {str(symbol): name_of(sources[0]) for symbol, sources in found if sources}


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


def _where_of_text(text: str | None) -> Where | None:
    """From what torch notes of a guard on sizes: `# served/model.py:12 in forward`, the file shortened."""
    found = _LINE.search(text or "")
    if found is None:
        return None
    files = (getattr(module, "__file__", None) or "" for module in list(sys.modules.values()))
    short = found["file"]
    whole = next((file for file in files if file.endswith(short)), short)
    return Where(whole, int(found["line"]), found["function"])
