"""Parts of a tensor in place of tensors of their own: who can take them as they lie."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

aten = torch.ops.aten
_REINTERPRETS = frozenset(
    (
        aten.as_strided,
        aten.as_strided_copy,
        aten.as_strided_scatter,
        aten.view_as_complex,
        torch.ops.prims.as_strided,
    )
)
"""Operators that read memory as it lies; so does `view` as another dtype."""
_ANY_STRIDES = frozenset({"aten", "prims", "compdbg"})
"""Operators of these take any strides; for those of others, and for callers, strides are a promise."""


def takes_parts(node: fx.Node) -> bool:
    """Whether all that read a node, also through views of it, take a tensor with gaps between its rows."""
    return all(_takes(user) for user in node.users)


def _takes(user: fx.Node) -> bool:
    if _is_view(user):
        return takes_parts(user)
    called: Any = (
        user.args[0] if user.target is torch.ops.higher_order.auto_functionalized_v2 else user.target
    )
    if not isinstance(called, torch._ops.OpOverload) or _reinterprets(called):
        return False
    return called.namespace in _ANY_STRIDES


def _reinterprets(target: torch._ops.OpOverload) -> bool:
    return target.overloadpacket in _REINTERPRETS or target in (aten.view.dtype, aten.view_copy.dtype)


def _is_view(node: fx.Node) -> bool:
    """Whether a node gives its first argument, or parts of it, in another shape."""
    target: Any = node.target
    if target is operator.getitem:
        return isinstance(node.args[0], fx.Node) and _is_view(node.args[0])
    if not isinstance(target, torch._ops.OpOverload) or _reinterprets(target):
        return False
    schema = target._schema
    return not schema.is_mutable and any(result.alias_info is not None for result in schema.returns)


def replace_by_part(old: fx.Node, part: fx.Node) -> None:
    """Let those who read `old` read `part`, whose views have other strides."""
    old.replace_all_uses_with(part)
    _refresh(part)


def _refresh(node: fx.Node) -> None:
    """Strides of views are worked out anew; what torch noted of a reader's arguments no longer holds."""
    for user in node.users:
        if _is_view(user):
            target: Any = user.target
            args, kwargs = fx.map_arg((user.args, user.kwargs), lambda each: each.meta["val"])
            user.meta["val"] = target(*args, **kwargs)
            _refresh(user)
        else:
            user.meta.pop("eager_input_vals", None)
