"""What a compiled artifact is made of that torch's cache keys do not hold: op schemas, fakes, passes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

from compdbg.events import FactorChange, Where
from compdbg.hooks.code_digest import digest_of
from compdbg.hooks.fusion_config import SLOTS
from compdbg.hooks.fusion_links import name_of, without_partial
from compdbg.hooks.pattern_matcher_entries import unwrapped
from compdbg.hooks.userline import is_torch_file, of_code

_BUILT_IN = frozenset({"aten", "prim", "prims", "inductor", "higher_order", "_c10d_functional", "quantized"})


class Making(NamedTuple):
    """One thing: a digest, what can be said of it, and where it is defined."""

    digest: str
    text: str
    where: Where | None = None


def makings_of(graph_module: Any) -> dict[str, Making]:
    """Of the custom ops of a graph their schemas and fakes; of the custom passes in effect their code."""
    found: dict[str, Making] = {}
    for op in sorted(_ops(graph_module), key=str):
        name = str(op.name())
        schema = str(op._schema)
        found[f"the schema of {name}"] = Making(schema, schema, _kernel_place(name))
        fake = _fake(name)
        if fake is not None:
            found[f"the fake of {name}"] = Making(digest_of(fake), "", _place(fake))
    config: Any = sys.modules.get("torch._inductor.config")
    for slot in SLOTS:
        value = getattr(config, slot, None)
        for custom_pass in value if isinstance(value, (list, tuple)) else [value]:
            if custom_pass is not None:
                bare = without_partial(custom_pass)
                found[f"the pass {name_of(custom_pass)} ({slot})"] = Making(digest_of(bare), "", _place(bare))
    return found


def changes(before: dict[str, tuple[str, str]], now: dict[str, Making]) -> list[FactorChange]:
    """What is in both and not the same."""
    return [
        FactorChange(name=name, before=before[name][1], after=making.text)
        for name, making in now.items()
        if name in before and before[name][0] != making.digest
    ]


def _ops(graph_module: Any) -> set[Any]:
    """The custom operators that a graph calls, also through functionalization and in its subgraphs."""
    overload = sys.modules["torch"]._ops.OpOverload
    packet = sys.modules["torch"]._ops.OpOverloadPacket
    found = set()
    for called in _called(graph_module):
        op = getattr(called, "_opoverload", called)
        if isinstance(op, packet):
            op = getattr(op, "default", None)
        if isinstance(op, overload) and op.namespace not in _BUILT_IN:
            found.add(op)
    return found


def _called(graph_module: Any) -> Iterator[Any]:
    for module in graph_module.modules():
        for node in module.graph.nodes if hasattr(module, "graph") else ():
            if node.op == "call_function":
                yield node.target
                yield from node.args[:1]


def _fake(name: str) -> Any:
    definition = sys.modules["torch._library.custom_ops"].OPDEFS.get(name.partition(".")[0])
    if definition is not None:
        return definition._abstract_fn
    entry = sys.modules["torch._library.simple_registry"].singleton.find(name)
    return getattr(entry.fake_impl.kernel, "func", None)


def _kernel_place(name: str) -> Where | None:
    definition = sys.modules["torch._library.custom_ops"].OPDEFS.get(name.partition(".")[0])
    return _place(definition._init_fn) if definition is not None else None


def _place(subject: Any) -> Where | None:
    code = getattr(unwrapped(subject), "__code__", None)
    return None if code is None or is_torch_file(code.co_filename) else of_code(code)
