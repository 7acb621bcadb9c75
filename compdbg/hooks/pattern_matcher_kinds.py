"""Kinds of ops: those that are no evidence of a pattern, those that are weak evidence, a user's own."""

from __future__ import annotations

import functools
from typing import Any

from compdbg.hooks.pattern_matcher_words import base_name

_VIEWS = {
    "view", "reshape", "_reshape_alias", "_unsafe_view", "expand", "expand_as", "permute", "transpose",
    "t", "swapaxes", "movedim", "unsqueeze", "squeeze", "slice", "select", "narrow", "alias", "as_strided",
    "detach", "split", "split_with_sizes", "unbind", "chunk", "flatten", "unflatten", "view_as", "view_of",
    "broadcast_in_dim", "lift_fresh", "lift_fresh_copy", "contiguous", "T", "mT",
}  # fmt: skip
_CASTS = {
    "convert_element_type", "_to_copy", "to", "type", "type_as", "float", "half", "bfloat16", "double",
    "int", "long", "bool",
}  # fmt: skip
_NO_OPS = {"getitem", "getattr", "size", "sym_size", "sym_stride", "sym_numel"}
_COMMON = {
    "add", "sub", "rsub", "mul", "div", "true_divide", "truediv", "addcmul", "addcdiv", "lerp", "neg",
    "reciprocal", "abs", "sign", "pow", "square", "sqrt", "rsqrt", "exp", "exp2", "expm1", "log", "log2",
    "log1p", "maximum", "minimum", "clamp", "clamp_min", "clamp_max", "where", "eq", "ne", "lt", "le", "gt",
    "ge", "logical_and", "logical_or", "logical_not", "bitwise_and", "bitwise_or", "bitwise_not",
    "sum", "mean", "var", "var_mean", "amax", "amin", "mm", "bmm", "addmm", "baddbmm", "matmul", "linear",
    "cat", "stack", "clone", "copy", "copy_", "full", "full_like", "zeros", "zeros_like", "ones",
    "ones_like", "empty", "empty_like", "scalar_tensor", "arange", "iota", "index", "gather", "embedding",
}  # fmt: skip
"""What most graphs are made of: one of these near an anchor says nothing."""


@functools.lru_cache(maxsize=4096)
def is_trivial(target: Any) -> bool:
    """A view, a cast or a getitem: no evidence that a pattern's computation is there."""
    name = base_name(target)
    if name in _VIEWS or name in _CASTS or name in _NO_OPS:
        return True
    returns = getattr(getattr(target, "_schema", None), "returns", ())
    return any(r.alias_info is not None and not r.alias_info.is_write for r in returns)


def is_cast(target: Any) -> bool:
    return base_name(target) in _CASTS


@functools.lru_cache(maxsize=4096)
def is_common(target: Any) -> bool:
    """Arithmetic, products, norms' and softmax's parts: evidence only together with what it is wired to."""
    return is_of_torch(target) and (base_name(target) in _COMMON or is_trivial(target))


@functools.lru_cache(maxsize=4096)
def is_of_torch(target: Any) -> bool:
    """An ATen or prims op, or a function or method that becomes one."""
    schema = getattr(target, "_schema", None)
    if schema is not None:
        return str(schema.name).partition("::")[0] in ("aten", "prims")
    module = str(getattr(target, "__module__", None) or "")
    return isinstance(target, str) or module.partition(".")[0] in ("", "torch", "_operator", "builtins")


@functools.lru_cache(maxsize=4096)
def is_pointwise(target: Any) -> bool:
    """Each value of the result comes of the values at its place."""
    return any(getattr(tag, "name", "") == "pointwise" for tag in getattr(target, "tags", ()))
