"""torch's guards of one compile as records: expression, source, user's line, layer, frozen value."""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from compdbg.events import Guard
from compdbg.hooks import userline
from compdbg.hooks.compile_facts import Facts
from compdbg.hooks.guard_names import show, user_name, with_cells_named
from compdbg.hooks.shape_guards import shape_guards

APART = frozenset(
    ("AUTOGRAD_SAVED_TENSORS_HOOKS", "DEFAULT_DEVICE", "DETERMINISTIC_ALGORITHMS", "DUAL_LEVEL",
     "DUPLICATE_INPUT", "FSDP_TRAINING_STATE", "FUNCTORCH_STACK_MATCH", "GLOBAL_STATE", "GRAD_MODE",
     "SHAPE_ENV", "TORCH_FUNCTION_STATE")
)  # fmt: skip
"""Guards that are on no one value: on the state of the process, over sizes, on two inputs at once."""

_CONSTANTS = frozenset(
    ("BOOL_MATCH", "CONSTANT_MATCH", "CONSTANT_SUBCLASS_MATCH", "EQUALS_MATCH", "NONE_MATCH")
)
_IDENTITIES = frozenset(
    (
        "BUILTIN_MATCH",
        "CLASS_MATCH",
        "CLOSURE_MATCH",
        "FUNCTION_MATCH",
        "ID_MATCH",
        "MODULE_MATCH",
        "NN_MODULE",
    )
)
_PLAIN = (bool, int, float, str, type(None))
_LONGEST = 2000
_AMBIENT_EXPRS = {
    "GLOBAL_STATE": "___check_global_state()",
    "TORCH_FUNCTION_STATE": "___check_torch_function_mode_stack()",
    "GRAD_MODE": "grad mode (checked by ___check_global_state())",
    "DETERMINISTIC_ALGORITHMS": "deterministic algorithms (checked by ___check_global_state())",
    "FSDP_TRAINING_STATE": "FSDP training state (not checked)",
}


class Drafts:
    """The records of torch's guards, before it is known which are kept: a record, and its guard's id."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.records: list[Guard] = []

    def add(self, guard: Any, record: Guard) -> None:
        self.ids.append(id(guard))
        self.records.append(record)


def draft(
    guards: Sequence[Any], builder: Any, facts: Facts, tensor_texts: dict[str, str], shapes: Sequence[str]
) -> Drafts:
    """Records for all guards of a compile; `builder` is the one that has just built them."""
    drafts = Drafts()
    for guard in guards:
        kind = guard.create_fn_name()
        if kind == "SHAPE_ENV":
            for shape, place in shape_guards(shapes or guard.code_list or (), facts):
                facts.shape_guards[shape.expr] = place
                drafts.add(guard, shape)
            continue
        source = guard.name
        name, value = _frozen(guard, kind, source, builder)
        record = Guard(
            type=kind,
            expr=_expression(guard, kind, source, tensor_texts)[:_LONGEST],
            source=source,
            where=userline.of_frames(guard.user_stack or ()),
            value=value,
            constant=name,
        )
        drafts.add(guard, record)
    return drafts


def settle(drafts: Drafts, kept: set[int] | None, dropped_by: str) -> list[Guard]:
    """The records with who dropped them; `kept` holds the ids of kept guards, None if all are."""
    hooks = _hooks_skipped()
    settled = []
    for guard, record in zip(drafts.ids, drafts.records, strict=True):
        by = None if kept is None or guard in kept else dropped_by
        if by is None and record.type == "EMPTY_NN_MODULE_HOOKS_DICT":
            by = hooks
        settled.append(record if by is None else replace(record, kept=False, dropped_by=by))
    return settled


def _hooks_skipped() -> str | None:
    config = sys.modules.get("torch._dynamo.config")
    skips = getattr(config, "skip_nnmodule_hook_guards", False)
    return "torch._dynamo.config.skip_nnmodule_hook_guards" if skips else None


def _expression(guard: Any, kind: str, source: str, tensor_texts: dict[str, str]) -> str:
    if kind in _AMBIENT_EXPRS:
        return _AMBIENT_EXPRS[kind]
    if kind == "TENSOR_MATCH" and source in tensor_texts:
        return tensor_texts[source]
    if guard.code_list:
        return str(guard.code_list[-1])
    attribute = getattr(guard.create_fn, "keywords", {}).get("attr")
    untold = {
        "NOT_PRESENT_IN_GENERIC_DICT": f"not ___dict_contains({attribute!r}, {source}.__dict__)",
        "EMPTY_NN_MODULE_HOOKS_DICT": f"not {source}",
        "CLOSURE_MATCH": f"{source}.__code__ is unchanged",
    }
    return untold.get(kind, f"{kind}({source})")


def _frozen(guard: Any, kind: str, source: str, builder: Any) -> tuple[str, Any]:
    """The user's name of a Python value that is frozen in the code, and the value.

    Objects compared by identity have no such name, but are described, to be named when another comes.
    """
    if not source or kind not in (_CONSTANTS | _IDENTITIES):
        return "", None
    try:
        value = builder.get(guard)
    except Exception:
        return "", None
    if kind in _IDENTITIES:
        return "", show(value)
    plain = value if type(value) in _PLAIN else show(value)
    if _is_torchs_own(guard, source):
        return "", plain
    return user_name(with_cells_named(source, functools.partial(_code_of, builder))), plain


def _is_torchs_own(guard: Any, source: str) -> bool:
    """Inside a module of torch.nn, or a helper of Dynamo's: nothing that the user set, but train/eval."""
    if source.endswith(".training"):
        return False
    return "BUILTIN_NN_MODULE" in guard.source.name or "__import_" in source or "__builtins_dict__" in source


def _code_of(builder: Any, source: str) -> Any:
    """The code object of a function that is named by its source."""
    try:
        return getattr(eval(source, dict(builder.scope)), "__code__", None)
    except Exception:
        return None


def name_of_filter(function: Any) -> str:
    """`drop_all (model.py:4)`: who decided to drop guards, and where that is defined."""
    inner = function
    while hasattr(inner, "func") and hasattr(inner, "keywords"):
        inner = inner.func
    inner = getattr(inner, "__func__", inner)
    name = getattr(inner, "__qualname__", None) or type(inner).__qualname__
    module = getattr(inner, "__module__", "") or ""
    if module.split(".")[0] == "torch":
        return f"{module}.{name}"
    code = getattr(inner, "__code__", None) or getattr(type(inner).__call__, "__code__", None)
    return name if code is None else f"{name} ({code.co_filename}:{code.co_firstlineno})"
