"""A graph as data for the disk: nodes with their targets by name, rebuilt without tracing anything.

`torch.fx` has no such thing for graphs of Dynamo: its pickler wants a fake mode, and loses what it
does not know. Here whatever can't be named or pickled is an error, and the graph is not kept.
"""

from __future__ import annotations

import importlib
import pickle
from typing import Any

import torch
from msgspec import Struct
from torch import fx
from torch.fx._lazy_graph_module import _make_graph_module

from compdbg.compiler.pieces import attribute


class ByName(Struct, frozen=True):
    """An object that is found by import: `module`, then attributes."""

    module: str
    path: str


class NodeData(Struct, frozen=True):
    """One node. In `args` and `kwargs`, nodes stand as `NodeName`."""

    op: str
    name: str
    target: Any
    args: Any
    kwargs: Any


class Nested(Struct, frozen=True):
    """A graph that an operator such as `cond` is given."""

    data: bytes


class NodeName(Struct, frozen=True):
    """A reference to an earlier node."""

    name: str


def dump_graph(module: fx.GraphModule) -> bytes:
    """Raises pickle.PicklingError or TypeError for a graph that holds what can't be kept."""
    attributes: dict[str, Any] = {}
    nodes = []
    for node in module.graph.nodes:
        if node.op == "get_attr":
            value = attribute(module, node.target)
            nested = isinstance(value, fx.GraphModule)
            attributes[node.target] = Nested(dump_graph(value)) if nested else value
        nodes.append(
            NodeData(node.op, node.name, named(node.target), _plain(node.args), _plain(dict(node.kwargs)))
        )
    return pickle.dumps((nodes, attributes))


def load_graph(data: bytes) -> fx.GraphModule:
    """The graph again; raises ImportError or AttributeError where an operator is gone."""
    nodes, kept = pickle.loads(data)
    attributes = {k: load_graph(v.data) if isinstance(v, Nested) else v for k, v in kept.items()}
    graph = fx.Graph()
    made: dict[str, fx.Node] = {}
    for node in nodes:
        args = _back(node.args, made)
        made[node.name] = graph.create_node(
            node.op, found(node.target), args, _back(node.kwargs, made), name=node.name
        )
    return _make_graph_module(attributes, graph)


def named(value: Any) -> Any:
    """How an operator or function is found again; the value itself where it has no name."""
    if isinstance(value, torch._ops.OpOverload):
        namespace, _, name = value._schema.name.partition("::")
        return ByName("torch", f"ops.{namespace}.{name}.{value._overloadname}")
    if isinstance(value, torch._ops.OpOverloadPacket):
        return ByName("torch", "ops." + value._qualified_op_name.replace("::", "."))
    if isinstance(value, torch._ops.HigherOrderOperator):
        return ByName("torch", f"ops.higher_order.{value.name()}")
    if not callable(value):
        return value
    names = [str(getattr(value, key, "")) for key in ("__qualname__", "__name__")]
    homes = [getattr(value, "__module__", None), "torch", "torch.nn.functional", "operator"]
    for place in (ByName(home, name) for home in homes for name in names if home and name):
        try:
            if found(place) is value:
                return place
        except (ImportError, AttributeError, ValueError):
            continue
    return value


def found(value: Any) -> Any:
    """What a name stands for."""
    if not isinstance(value, ByName):
        return value
    result: Any = importlib.import_module(value.module)
    for step in value.path.split("."):
        result = getattr(result, step)
    return result


def _plain(value: Any) -> Any:
    if isinstance(value, fx.Node):
        return NodeName(value.name)
    if isinstance(value, tuple):
        items = [_plain(item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, slice):
        return slice(_plain(value.start), _plain(value.stop), _plain(value.step))
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        raise TypeError(f"a graph holds the symbolic value {value} as a constant")
    return named(value)


def _back(value: Any, made: dict[str, fx.Node]) -> Any:
    if isinstance(value, NodeName):
        return made[value.name]
    if isinstance(value, tuple):
        items = [_back(item, made) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if isinstance(value, list):
        return [_back(item, made) for item in value]
    if isinstance(value, dict):
        return {key: _back(item, made) for key, item in value.items()}
    if isinstance(value, slice):
        return slice(_back(value.start, made), _back(value.stop, made), _back(value.step, made))
    return found(value)
