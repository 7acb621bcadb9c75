"""Parts of a tensor in place of tensors of their own: who can take them as they lie."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

aten = torch.ops.aten
_VIEWS = frozenset({aten.reshape.default, aten.view.default})
_ANY_STRIDES = frozenset({"aten", "prims", "compdbg"})
"""Operators of these take any strides; for those of others, and for callers, strides are a promise."""


def takes_parts(node: fx.Node) -> bool:
    """Whether all that read a node, also through views of it, take a tensor with gaps between its rows."""
    return all(_takes(user) for user in node.users)


def _takes(user: fx.Node) -> bool:
    if user.target in _VIEWS:
        return takes_parts(user)
    called: Any = (
        user.args[0] if user.target is torch.ops.higher_order.auto_functionalized_v2 else user.target
    )
    return isinstance(called, torch._ops.OpOverload) and called.namespace in _ANY_STRIDES


def replace_by_part(old: fx.Node, part: fx.Node) -> None:
    """Let those who read `old` read `part`, whose views have other strides."""
    old.replace_all_uses_with(part)
    _refresh_views(part)


def _refresh_views(node: fx.Node) -> None:
    for user in node.users:
        if user.target in _VIEWS:
            args = fx.map_arg(user.args, lambda each: each.meta["val"])
            target: Any = user.target
            user.meta["val"] = target(*args)
            _refresh_views(user)
