"""An FX graph as text, in a tenth of the time that `print_readable` takes, and its fingerprint.

One line a node, `name: "f32[4, 8][8, 1]cpu" = aten.mm.default(a, b)`, after a comment with the
user's line wherever that changes. Regular enough to be read back, and to be diffed line by line.
"""

from __future__ import annotations

import functools
import operator
from collections import Counter
from collections.abc import Iterable
from typing import Any

from compdbg.hooks.aliases import FUNCTIONALIZED
from compdbg.hooks.userline import of_text
from compdbg.record.options import current

_SHORT = {
    "float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "int64": "i64",
    "int32": "i32", "int16": "i16", "int8": "i8", "uint8": "u8", "bool": "b8",
    "complex64": "c64", "complex128": "c128",
}  # fmt: skip


def graph_text(graph: Any) -> str:
    """The graph of a GraphModule (or a bare `fx.Graph`), and below it those of its subgraphs."""
    lines = list(_lines(graph))
    for name, child in _subgraphs(graph):
        lines += ["", f"# subgraph {name}", graph_text(child.graph)]
    return "\n".join(lines)


def op_counts(graph: Any) -> dict[str, int]:
    """How often each op is called: `aten.mm.default` -> 24; one that is functionalized, in brackets."""
    counted = Counter(_called(node) for node in graph.nodes if node.op.startswith("call"))
    return {
        target_name(target) if inner is None else f"{target_name(target)}({target_name(inner)})": count
        for (target, inner), count in counted.items()
    }


def _called(node: Any) -> tuple[Any, Any]:
    """A node's op, and the op that it calls where it stands for one that writes to its arguments."""
    functionalized = getattr(node.target, "__name__", "") in FUNCTIONALIZED and node.args
    return node.target, node.args[0] if functionalized else None


def fingerprint(graph: Any) -> int:
    """Equal for a graph whose nodes, their order, targets and arguments are as they were."""
    found = 0
    for node in graph.nodes:
        try:
            found = hash((found, node, node.target, node.args, node.kwargs))
        except TypeError:
            found = hash((found, node, str(node.args), str(node.kwargs)))
    return found


@functools.lru_cache(maxsize=4096)
def target_name(target: Any) -> str:
    """`aten.mm.default` of an overload, `getitem` of a function, the text of a method or module."""
    if isinstance(target, str):
        return target
    if target is operator.getitem:
        return "getitem"
    text = str(target)
    if not text.startswith("<"):
        return text
    module = getattr(target, "__module__", None) or ""
    name = getattr(target, "__qualname__", None) or getattr(target, "__name__", None) or text
    return name if module in ("", "builtins", "_operator") else f"{module}.{name}"


def _subgraphs(graph: Any) -> Iterable[tuple[str, Any]]:
    owner = graph.owning_module
    if owner is None:
        return
    for name, child in owner.named_children():
        if hasattr(child, "graph") and hasattr(child.graph, "nodes"):
            yield name, child


def _lines(graph: Any) -> Iterable[str]:
    with_source = current().source
    inputs: list[str] = []
    body: list[str] = []
    place = ""
    for node in graph.nodes:
        if node.op == "placeholder":
            inputs.append(f"{node.name}{_annotation(node)}")
            continue
        here = _place(node.meta.get("stack_trace") or "", with_source)
        if here and here != place:
            body.append(f"    # {here}")
            place = here
        body.append(f"    {_statement(node)}")
    yield "def forward("
    yield from (f"    {one}," for one in inputs)
    yield "):"
    yield from body


def _statement(node: Any) -> str:
    if node.op == "output":
        return f"return {_argument(node.args[0])}"
    if node.op == "get_attr":
        return f"{node.name}{_annotation(node)} = self.{node.target}"
    words = [_argument(argument) for argument in node.args]
    words += [f"{key}={_argument(value)}" for key, value in node.kwargs.items()]
    return f"{node.name}{_annotation(node)} = {target_name(node.target)}({', '.join(words)})"


def _argument(value: Any) -> str:
    kind = type(value).__name__
    if kind == "Node":
        return str(value.name)
    if isinstance(value, (list, tuple)):
        inner = ", ".join(_argument(item) for item in value)
        return f"[{inner}]" if isinstance(value, list) else f"({inner}{',' if len(value) == 1 else ''})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {_argument(item)}" for key, item in value.items()) + "}"
    if isinstance(value, slice):
        return f"slice({_argument(value.start)}, {_argument(value.stop)}, {_argument(value.step)})"
    if kind in ("OpOverload", "OpOverloadPacket") or callable(value):
        return target_name(value)
    return repr(value)[:400]


def _annotation(node: Any) -> str:
    meta = node.meta
    value = meta.get("val", meta.get("example_value"))
    return "" if value is None else f': "{_described(value)}"'


def _described(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return "(" + ", ".join(_described(item) for item in value) + ")"
    shape = getattr(value, "shape", None)
    if shape is None:
        return type(value).__name__
    try:
        dtype = str(value.dtype).removeprefix("torch.")
        stride = ", ".join(map(str, value.stride()))
        return f"{_SHORT.get(dtype, dtype)}[{', '.join(map(str, shape))}][{stride}]{value.device}"
    except (RuntimeError, AttributeError):
        return type(value).__name__


@functools.lru_cache(maxsize=8192)
def _place(stack: str, with_source: bool) -> str:
    where = of_text(stack)
    if where is None:
        return ""
    place = f"{where.file}:{where.line} in {where.function}"
    if not with_source:
        return place
    lines = stack.splitlines()
    head = f'File "{where.file}", line {where.line}, in '
    at = next((i for i, line in enumerate(lines) if line.strip().startswith(head)), None)
    code = lines[at + 1].strip() if at is not None and at + 1 < len(lines) else ""
    return f"{place}: {code}" if code and not code.startswith("File ") else place
