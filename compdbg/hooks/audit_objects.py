"""Guards on Python values: constants, types, identities, lengths and keys of containers."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from compdbg.hooks.audit_judgement import Case, Judgement
from compdbg.hooks.audit_tree import value_at
from compdbg.hooks.audit_watches import MISSING
from compdbg.hooks.guard_names import show, user_name

_TYPE = re.compile(r"type=<class '(?P<name>[^']+)'>")
_CONTAINS = re.compile(
    r"^(?P<absent>not )?(?:___dict_contains\((?P<key>'[^']*'|[^,]+), (?P<of>.+)\)"
    r"|set\.__contains__\((?P<set>.+), (?P<item>[^,]+)\))$"
)
_NO_ATTRIBUTE = re.compile(r"^not hasattr\((?P<of>.+), '(?P<name>[^']+)'\)$")
_LENGTH = re.compile(r"(?:len|__len__)\(.+\) == (?P<length>\d+)$")
_LAST = re.compile(r"(?:\.(?P<attribute>\w+)|\[(?P<key>[^\[\]]+)\])$")

_BAKED = "its value is a constant in the compiled code"
_LISTS = frozenset(("list", "tuple"))
_DICTS = frozenset(("dict", "OrderedDict", "defaultdict"))
_DROPOUTS = ("Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout")


class _Said(NamedTuple):
    kind: str
    effect: str
    why: str


def _judge(case: Case, said: _Said, wanted: str, seen: str, name: str = "") -> list[Judgement]:
    """A judgement with the groups that all guards on Python values have: the source, the attribute."""
    source, record = case.watch.source, case.watch.record
    named = record.constant if record is not None and record.source == source else ""
    name = name or named or user_name(source)
    last = _LAST.search(name)
    tail = (last["attribute"] or last["key"]) if last else name
    by_index = tail.isdecimal()
    groups = (
        ("source", source),
        ("items of", name[: last.start()]) if by_index and last else ("value", tail, wanted, seen),
        *_owner(case, source),
    )
    return [Judgement(said.kind, said.effect, said.why, name, wanted, seen, case.where, "", groups)]


def _owner(case: Case, source: str) -> tuple[tuple[str, int, str], ...]:
    """The object and the attribute itself: one attribute has several sources where objects are shared."""
    last = _LAST.search(source)
    owner = value_at(source[: last.start()], case.scope) if last else MISSING
    return (("owner", id(owner), last[0]),) if last and owner is not MISSING else ()


def judge_constant(case: Case) -> list[Judgement]:
    value = case.watch.value(case.scope)
    if value is MISSING:
        return judge_access(case)
    record = case.watch.record
    own = record is not None and record.source == case.watch.source
    wanted = _recorded(case) if own else _right_side(case.watch.expr)
    seen = show(value)
    if case.watch.source.endswith(".training") and _is_idle_dropout(case):
        why = "a dropout with p = 0 does the same in training and in evaluation"
        return _judge(case, _Said("constant", "same", why), wanted, seen)
    if wanted == seen or _equal(case.wanted, value):
        return _judge(case, _of_another_type(case, value), wanted, seen)
    why = "only the way for None is in the compiled code" if wanted == "None" else _BAKED
    return _judge(case, _Said("constant", "differs", why), wanted, seen)


def _recorded(case: Case) -> str:
    """The value at trace time as text; what is no plain value was recorded as such."""
    value = case.wanted
    if value is None:
        return _right_side(case.watch.expr)
    is_text = isinstance(value, str) and not case.watch.expr.endswith(repr(value))
    return str(value) if is_text else show(value)


def _of_another_type(case: Case, value: Any) -> _Said:
    """Equal, but an int where a float was, or the other way round: whole numbers are computed otherwise."""
    why = f"the value is equal, but its type is {type(value).__name__} now"
    kinds = {type(case.wanted), type(value)}
    if kinds == {bool, int} or (kinds == {int, float} and not case.facts.whole_numbers):
        return _Said("type", "same", f"{why}, and no tensor of whole numbers is computed with")
    return _Said("type", "differs" if kinds == {int, float} else "unknown", why)


def _right_side(expr: str) -> str:
    return "None" if expr.endswith(" is None") else expr.rpartition(" == ")[2]


def _equal(wanted: Any, value: Any) -> bool:
    simple = (bool, int, float)
    return type(wanted) in simple and type(value) in simple and wanted == value


def _is_idle_dropout(case: Case) -> bool:
    module = value_at(case.watch.source.removesuffix(".training"), case.scope)
    return type(module).__name__ in _DROPOUTS and getattr(module, "p", None) == 0


def judge_type(case: Case) -> list[Judgement]:
    value = case.watch.value(case.scope)
    if value is MISSING:
        return judge_access(case)
    found = _TYPE.search(case.watch.expr)
    wanted = found["name"].rpartition(".")[2] if found else ""
    seen = type(value).__name__
    if {wanted, seen} <= {"Tensor", "Parameter", "Buffer"}:
        why = "a Parameter is computed with like any tensor"
        judged = _judge(case, _Said("type", "same", why), wanted, seen)[0]
        return [judged._replace(facet="pytype", groups=(("pytype", wanted, seen), *judged.groups))]
    if {wanted, seen} <= _LISTS or {wanted, seen} <= _DICTS:
        return _judge(
            case, _Said("type", "same", "its items are the same, and only they are used"), wanted, seen
        )
    if wanted in (base.__name__ for base in type(value).__mro__[1:]):
        why = f"{seen} is a {wanted}, but the compiled code has only what {wanted} does"
        return _judge(case, _Said("type", "unknown", why), wanted, show(value))
    why = f"the compiled code does what a {wanted} does"
    return _judge(case, _Said("type", "differs", why), wanted, show(value))


def judge_identity(case: Case) -> list[Judgement]:
    value = case.watch.value(case.scope)
    if value is MISSING:
        return judge_access(case)
    wanted = str(case.wanted or "the object of the trace")
    source = case.watch.source.removesuffix(".__code__")
    seen = show(value_at(source, case.scope) if source != case.watch.source else value)
    if seen == wanted:
        seen = f"another {seen.removeprefix('a ')}"
    return _judge(case, _Said("identity", "differs", "it was traced into the compiled code"), wanted, seen,
                  user_name(source))  # fmt: skip


def judge_length(case: Case) -> list[Judgement]:
    value = case.watch.value(case.scope)
    if value is MISSING:
        return judge_access(case)
    found = _LENGTH.search(case.watch.expr)
    wanted = f"{found['length'] if found else 0} items"
    try:
        seen = f"{len(value)} items"
    except TypeError:
        seen = show(value)
    if "_hooks" in case.watch.source:
        why = "hooks that were added after the compile are not in the compiled code"
        return _judge(case, _Said("other", "unknown", why), wanted, seen)
    why = "the loop over its items was unrolled while tracing"
    return _judge(case, _Said("constant", "differs", why), wanted, seen)


def judge_keys(case: Case) -> list[Judgement]:
    value = value_at(case.watch.source, case.scope)
    wanted = case.watch.expr.rpartition(" == ")[2]
    seen = show(list(value)) if isinstance(value, dict) else show(value)
    why = "the loop over its items was unrolled while tracing"
    return _judge(case, _Said("constant", "differs", why), f"the keys {wanted}", seen)


def judge_contained(case: Case) -> list[Judgement]:
    """A key that was not there and is now, or the other way round; the keys of a dict."""
    container = case.watch.value(case.scope)
    found = _CONTAINS.match(case.watch.expr)
    if found is None or container is MISSING:
        return _judge(
            case,
            _Said("constant", "differs", "the traced code saw its keys"),
            "the keys of the trace",
            "others",
        )
    text, absent = found["key"] or found["item"], bool(found["absent"])
    owner = case.watch.source.removesuffix(".__dict__")
    if owner != case.watch.source:
        return _set_on_instance(case, owner, text.strip("'"), container)
    wanted, seen = ("not there", "there") if absent else ("there", "not there")
    name = f"{text} in {user_name(case.watch.source)}"
    return _judge(case, _Said("constant", "differs", "the traced code looked for it"), wanted, seen, name)


def _set_on_instance(case: Case, owner: str, key: str, attributes: Any) -> list[Judgement]:
    """An attribute of the class was traced; the instance has one of its own now."""
    value = attributes.get(key, MISSING) if isinstance(attributes, dict) else MISSING
    of_class = getattr(type(value_at(owner, case.scope)), key, MISSING)
    name = f"{user_name(owner)}.{key}"
    if show(value) == show(of_class) and type(value) in (bool, int, float, str, type(None)):
        why = "the instance has an attribute of its own now, with the value that was traced"
        return _judge(case, _Said("constant", "same", why), show(of_class), show(value), name)
    return _judge(case, _Said("constant", "differs", _BAKED), show(of_class), show(value), name)


def judge_absent(case: Case) -> list[Judgement]:
    """`hasattr` was false while tracing."""
    found = _NO_ATTRIBUTE.match(case.watch.expr)
    name = f"{user_name(found['of'])}.{found['name']}" if found else ""
    why = "the traced code took the way without the attribute"
    return _judge(case, _Said("constant", "differs", why), "not there", "there", name)


def judge_access(case: Case) -> list[Judgement]:
    why = "the traced code used it; without it eager takes another way, or fails"
    wanted = show(case.wanted) if case.wanted is not None else "there"
    return _judge(case, _Said("constant", "differs", why), wanted, "not there any more")


def judge_alive(case: Case) -> list[Judgement]:
    return _judge(
        case,
        _Said("type", "differs", "the compiled code uses it"),
        "an object",
        show(case.watch.value(case.scope)),
    )


def judge_lambda(case: Case) -> list[Judgement]:
    """Guards that torch writes in Python: tensor subclasses, subclasses of int and str, iterators."""
    kind = case.watch.record.type if case.watch.record is not None else ""
    value = case.watch.value(case.scope)
    if kind == "CONSTANT_SUBCLASS_MATCH":
        return judge_constant(case)
    if kind == "COW_TENSOR_MATCH":
        return _judge(case, _Said("other", "same", "copy-on-write is not visible to the result"), "", "")
    if kind in ("TENSOR_SUBCLASS_METADATA_MATCH", "DTENSOR_SPEC_MATCH", "OPAQUE_OBJ_GUARD_FN_MATCH"):
        why = "what the tensor subclass says of itself is a constant in the compiled code"
        return _judge(case, _Said("type", "differs", why), "as traced", show(value))
    if kind == "COUNT_ITERATOR_MATCH":
        return _judge(case, _Said("constant", "differs", _BAKED), "where it stood", show(value))
    return _judge(
        case, _Said("other", "unknown", "what the guard protects is not known"), case.watch.expr, show(value)
    )
