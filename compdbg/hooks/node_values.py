"""Evaluates a few nodes of an FX graph on values that are given for all others."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


class Unknown(Exception):
    """A node that can't be evaluated: no metadata, or of a kind that only a module can run."""


def evaluate(node: Any, members: set[Any], env: dict[Any, Any], given: Callable[[Any], Any]) -> Any:
    """The value of a node: `members` are run, all others are `given`."""
    if node not in env:
        env[node] = _run(node, members, env, given) if node in members else given(node)
    return env[node]


def _run(node: Any, members: set[Any], env: dict[Any, Any], given: Callable[[Any], Any]) -> Any:
    map_arg = sys.modules["torch.fx.node"].map_arg
    args, kwargs = map_arg((node.args, node.kwargs), lambda n: evaluate(n, members, env, given))
    if node.op == "call_function":
        return node.target(*args, **kwargs)
    if node.op == "call_method":
        return getattr(args[0], node.target)(*args[1:], **kwargs)
    raise Unknown(node.op)
