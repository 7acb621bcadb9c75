"""Grad mode, autocast and inference mode inside a graph, kept right when the graph is cut in two.

Dynamo writes them as nodes that switch something on or off. A piece must switch on what was on
where it begins, and leave everything as it found it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import fx


class State(NamedTuple):
    """What is switched on at a node: the grad mode (None: as outside), and contexts entered so far."""

    grad: bool | None = None
    entered: tuple[fx.Node, ...] = ()


def is_context_switch(node: fx.Node) -> bool:
    """A node that only switches a mode; it belongs to no piece, and is written anew where needed."""
    return _is_grad(node) or _is_enter(node) or _is_exit(node)


def states(graph: fx.Graph) -> dict[fx.Node, State]:
    """The state at each node, for graphs that have any; empty for those that switch nothing."""
    if not any(is_context_switch(node) for node in graph.nodes):
        return {}
    outside = torch.is_grad_enabled()
    state = State()
    found: dict[fx.Node, State] = {}
    for node in graph.nodes:
        if _is_grad(node):
            enabled = bool(node.args[0])
            state = state._replace(grad=None if enabled == outside else enabled)
        elif _is_enter(node):
            state = state._replace(entered=(*state.entered, node))
        elif _is_exit(node):
            state = state._replace(entered=tuple(n for n in state.entered if n is not node.args[0]))
        else:
            found[node] = state
    return found


class Switcher:
    """Writes the switches between nodes of one piece; `copy` clones a node into it."""

    def __init__(self, graph: fx.Graph, copy: Callable[[fx.Node], fx.Node]) -> None:
        self._graph = graph
        self._copy = copy
        self._state = State()
        self._open: dict[fx.Node, fx.Node] = {}

    def to(self, state: State) -> None:
        """Go from the present state to `state`."""
        now = self._state
        kept = _common(now.entered, state.entered)
        for node in reversed(now.entered[kept:]):
            self._graph.call_function(_exit_of(node), (self._open.pop(node),))
        for node in state.entered[kept:]:
            self._open[node] = self._copy(node)
        if state.grad != now.grad:
            enabled = torch.is_grad_enabled() if state.grad is None else state.grad
            self._graph.call_function(torch._C._set_grad_enabled, (enabled,))
        self._state = state

    def leave(self) -> None:
        """Leave everything as it was where the piece began."""
        self.to(State())


def _common(a: tuple[fx.Node, ...], b: tuple[fx.Node, ...]) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x is not y), min(len(a), len(b)))


def _is_grad(node: fx.Node) -> bool:
    return node.op == "call_function" and node.target is torch._C._set_grad_enabled


def _name(node: fx.Node) -> str:
    return getattr(node.target, "__name__", "") if node.op == "call_function" else ""


def _is_enter(node: fx.Node) -> bool:
    return _name(node).startswith("_enter_")


def _is_exit(node: fx.Node) -> bool:
    return _name(node).startswith("_exit_")


def _exit_of(node: fx.Node) -> Callable[..., object]:
    """`_exit_autocast` for `_enter_autocast`: they stand side by side in one module of torch."""
    import sys

    module: Any = sys.modules[node.target.__module__]
    found: Callable[..., object] = getattr(module, _name(node).replace("_enter_", "_exit_"))
    return found
