"""Guards over sizes, and guards on which inputs are one object."""

from __future__ import annotations

import re
from typing import Any

from compdbg.events import Where
from compdbg.hooks.audit_judgement import Case, Group, Judgement
from compdbg.hooks.audit_tree import value_at
from compdbg.hooks.audit_watches import AliasWatch
from compdbg.hooks.compile_facts import Place
from compdbg.hooks.guard_names import show, user_name
from compdbg.hooks.shape_guards import FROM_CACHE, sources_in

_BOUND = re.compile(r"^2 <= (?P<source>.+)$")
_AT_LEAST = re.compile(r"^(?P<low>-?\d+) <= (?P<source>[^=<>]+)$")
_UNEQUAL = re.compile(r"!=|^Ne\(")
_EQUAL = re.compile(r"==|^Eq\(")
_HEURISTICS = frozenset(
    ("check_contiguous_sizes_strides", "choose_reduction", "decide_layout", "inner_reduction_splits",
     "need_use_acc_helper", "num_splits", "outer_reduction_splits", "select_algorithm",
     "should_use_cooperative", "should_use_persistent_reduction", "use_cpp_bmm_template",
     "use_cpp_gemm_template", "use_triton_template")
)  # fmt: skip
"""Functions of Inductor that choose between kernels which compute the same."""


def judge_shape(case: Case) -> list[Judgement]:
    expr = case.watch.expr
    sources = sources_in(expr)
    values = {source: value_at(source, case.scope) for source in sources}
    bound = _BOUND.match(expr)
    if bound is not None and bound["source"] in values:
        return [_bound(case, bound["source"], values[bound["source"]])]
    is_size = any(".size()" in s or ".stride()" in s or ".storage_offset()" in s for s in sources)
    effect, why, where = _effect(case, expr, sources)
    return [
        Judgement(
            kind="shape" if is_size else "constant",
            effect=effect,
            why=why,
            name=", ".join(user_name(source) for source in sources) or expr,
            wanted=_wanted(expr),
            seen=_values(values),
            where=where or case.where,
            groups=_groups(sources),
        )
    ]


def _wanted(expr: str) -> str:
    """`x.shape[0] >= 11` for torch's `11 <= L['x'].size()[0]`."""
    found = _AT_LEAST.match(expr)
    return f"{user_name(found['source'])} >= {found['low']}" if found else user_name(expr)


def _groups(sources: list[str]) -> tuple[Group, ...]:
    """Strides of a tensor belong together; for sizes it is the same sizes that do."""
    strided = {_property(source)[0] for source in sources if _property(source)[1] == "stride"}
    return tuple(("strides", tensor) for tensor in strided) or (("sizes", frozenset(sources)),)


def _bound(case: Case, source: str, value: Any) -> Judgement:
    """Every dynamic size is bounded by 2: a size of 0 or 1 is wrong only where something looked at it."""
    name = user_name(source)
    branch = case.facts.flipped(source, value) if isinstance(value, int) else None
    where = case.where
    if branch is not None:
        where = branch.where or where
        why = f"`{branch.expr}` was found {branch.result} for all sizes of at least 2; for {value} it is not"
        effect = "differs"
        if branch.in_library:
            effect, why = "unknown", f"{why}. Libraries often treat 0 and 1 apart to get the same faster"
    else:
        effect, why, at = _by_shapes(case)
        where = at or where
    groups = (("sizes", frozenset((source,))),)
    seen = f"{name} = {show(value)}"
    return Judgement("shape", effect, why, name, f"{name} >= 2", seen, where, groups=groups)


def _by_shapes(case: Case) -> tuple[str, str, Where | None]:
    """Whether every op of the graph has the shape at these sizes that it was traced to have."""
    wrong = None
    if case.facts.style != "ops":
        wrong = case.facts.wrong_op(lambda source: value_at(source, case.scope))
    if wrong is None:
        return "same", "no branch was taken by it, and every op has the shape that the graph says", None
    certain = case.facts.style == "generated" and _BOUND.match(case.watch.expr)
    why = f"{wrong.name} has another shape at this size than the graph says"
    return "differs" if certain else "unknown", why, wrong.where


def _effect(case: Case, expr: str, sources: list[str]) -> tuple[str, str, Where | None]:
    place = case.facts.shape_guards.get(expr, Place(None, "dynamo", False))
    if place.by_user:
        return "differs", "the branch taken while tracing is the only one in the compiled code", None
    if _is_equality_of_inputs(expr, sources):
        return _by_equality(case, sources)
    if place.layer == "inductor":
        return _by_inductor(expr, place)
    return _by_shapes(case)


def _is_equality_of_inputs(expr: str, sources: list[str]) -> bool:
    """`L['y'].size()[0] == L['x'].size()[0]`, `L['n'] == 5`: no formula on either side."""
    left, equal, right = expr.partition(" == ")
    return bool(equal) and left in sources and (right in sources or right.lstrip("-").isdecimal())


def _by_equality(case: Case, sources: list[str]) -> tuple[str, str, Where | None]:
    if case.facts.style != "ops":
        return "differs", "they were equal while tracing, so the compiled code knows only one of them", None
    for source in sources:
        tensor, prop = _property(source)
        read, where = case.facts.read_at(tensor, prop)
        if read or not prop:
            return "differs", "the graph knows only one of them", where
    return "same", "this backend calls torch's ops one by one, and the program reads none of them", None


def _property(source: str) -> tuple[str, str]:
    """`("L['x']", "size")` of `L['x'].size()[0]`; a plain int has no property."""
    found = re.match(r"^(?P<tensor>.+)\.(?P<prop>size|stride)\(\)\[\d+\]$", source)
    return (found["tensor"], found["prop"]) if found else (source, "")


def _by_inductor(expr: str, place: Place) -> tuple[str, str, Where | None]:
    if _UNEQUAL.search(expr) or place.asked_by in _HEURISTICS:
        return "same", f"Inductor chose between kernels by it that compute the same ({place.asked_by})", None
    if _EQUAL.search(expr):
        return "differs", "Inductor made code that is right only while it holds", None
    if place.asked_by == FROM_CACHE:
        return (
            "same",
            "it came with a cached artifact, and most such bounds choose between equal kernels",
            None,
        )
    return "unknown", f"Inductor chose its code by it ({place.asked_by})", None


def _values(values: dict[str, Any]) -> str:
    return ", ".join(f"{user_name(source)} = {show(value)}" for source, value in values.items())


def judge_duplicate(case: Case) -> list[Judgement]:
    """Traced with one object under two names: the compiled code reads one name only."""
    left, _, right = map(user_name, case.watch.expr.partition(" is "))
    why = "both names were one object while tracing, so the compiled code reads only one of them"
    wanted, seen = f"{left} is {right}", f"{left} and {right} are two objects"
    groups = (("duplicate", right),)
    return [
        Judgement("identity", "differs", why, f"{left}, {right}", wanted, seen, case.where, groups=groups)
    ]


def judge_alias(case: Case) -> list[Judgement]:
    """Traced with different tensors: a write to one is not seen under the other name."""
    assert isinstance(case.watch, AliasWatch)
    shared = case.watch.shared(case.scope)
    names = [user_name(name) for name in (shared[0] if shared else [])]
    written = [user_name(n) for n in case.watch.mutated if shared and n in shared[0]]
    why = (
        f"the graph writes to {', '.join(sorted(written))}; traced with different tensors, "
        "it does not show the write under the other name"
    )
    seen = f"{' and '.join(names)} are one tensor"
    return [Judgement("identity", "differs", why, ", ".join(names), "different tensors", seen, None)]
