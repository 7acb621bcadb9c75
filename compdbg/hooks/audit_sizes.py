"""Guards over sizes, and guards on which inputs are one object."""

from __future__ import annotations

import re
from typing import Any

from compdbg.hooks.audit_judgement import Case, Judgement
from compdbg.hooks.audit_tree import value_at
from compdbg.hooks.audit_watches import AliasWatch
from compdbg.hooks.compile_facts import Place
from compdbg.hooks.guard_names import show, user_name
from compdbg.hooks.shape_guards import sources_in

_BOUND = re.compile(r"^2 <= (?P<source>.+)$")
_EQUAL = re.compile(r"^[^=<>!]+ == [^=<>!]+$")


def judge_shape(case: Case) -> list[Judgement]:
    expr = case.watch.expr
    sources = sources_in(expr)
    values = {source: value_at(source, case.scope) for source in sources}
    bound = _BOUND.match(expr)
    if bound is not None and bound["source"] in values:
        return [_bound(case, bound["source"], values[bound["source"]])]
    place = case.facts.shape_guards.get(expr, Place(None, "dynamo", False))
    is_size = any(".size()" in s or ".stride()" in s or ".storage_offset()" in s for s in sources)
    effect, why = _why(case, place, expr, sources)
    return [
        Judgement(
            kind="shape" if is_size else "constant",
            effect=effect,
            why=why,
            name=", ".join(user_name(source) for source in sources) or expr,
            wanted=user_name(expr),
            seen=_values(values),
            where=case.where,
            groups=(("sizes", frozenset(sources)),),
        )
    ]


def _bound(case: Case, source: str, value: Any) -> Judgement:
    """Every dynamic size is bounded by 2: a size of 0 or 1 is wrong only where something looked at it."""
    name = user_name(source)
    branch = case.facts.flipped(source, value) if isinstance(value, int) else None
    groups = (("sizes", frozenset((source,))),)
    if branch is None:
        why = f"traced for sizes of at least 2, but nothing in the code is decided by {name} being {value}"
        return Judgement("shape", "same", why, name, f"{name} >= 2", f"{name} = {value}", case.where,
                         groups=groups)  # fmt: skip
    why = (
        f"{branch.expr} was settled for sizes of at least 2, and is another for {value}"
        if branch.by_op
        else f"`{branch.expr}` was found {branch.result} for all sizes of at least 2; for {value} it is not"
    )
    return Judgement("shape", "differs", why, name, f"{name} >= 2", f"{name} = {value}",
                     branch.where or case.where, groups=groups)  # fmt: skip


def _why(case: Case, place: Place, expr: str, sources: list[str]) -> tuple[str, str]:
    if place.layer != "dynamo":
        return "differs", f"{_LAYERS[place.layer]} made code that is right only while it holds"
    if place.by_user:
        return "differs", "the branch that was taken while tracing is the only one in the compiled code"
    if case.facts.style == "ops":
        return _by_ops(case, expr, sources)
    if _EQUAL.match(expr) and place.where is None:
        return "differs", "these sizes were equal while tracing, so the compiled code knows only one of them"
    return "differs", "an op was traced in a way that is right only while it holds"


_LAYERS = {"aot": "AOTAutograd", "inductor": "Inductor"}


def _by_ops(case: Case, expr: str, sources: list[str]) -> tuple[str, str]:
    tensors = [source.partition(".size()")[0] for source in sources]
    if any(case.facts.read_at(tensor, "size")[0] for tensor in tensors):
        return "differs", "the graph uses one size where the program reads several"
    return "same", "this backend calls torch's ops one by one, and the program reads none of these sizes"


def _values(values: dict[str, Any]) -> str:
    return ", ".join(f"{user_name(source)} = {show(value)}" for source, value in values.items())


def judge_duplicate(case: Case) -> list[Judgement]:
    """Traced with one object under two names: the compiled code reads one name only."""
    left, _, right = case.watch.expr.partition(" is ")
    why = "both names were one object while tracing, so the compiled code reads only one of them"
    name = f"{user_name(left)}, {user_name(right)}"
    return [Judgement("identity", "differs", why, name, "one object", "two objects", case.where,
                      groups=(("duplicate", right),))]  # fmt: skip


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
