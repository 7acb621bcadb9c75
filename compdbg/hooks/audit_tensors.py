"""Tensor guards: dtype, device, shape, strides, gradients, dispatch keys, each with its own effect."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Any

from compdbg.events import Where
from compdbg.hooks.audit_judgement import Case, Expected, Group, Judgement
from compdbg.hooks.compile_facts import Facts
from compdbg.hooks.guard_names import show, user_name

_PLAIN = ("Tensor", "Parameter", "Buffer")
_KEY = re.compile(r"\w+")
_GENERATED = "the generated code was made for {}"
_READ = "the program read it while it was traced, and what it did then is frozen"
_BY_OPS = "this backend calls torch's ops one by one, and nothing read it while it was traced"
_MAY = "a backend that compiles may rely on it"


def judge_marks(case: Case) -> list[Judgement]:
    name = user_name(case.watch.source)
    why = "marks of dynamic sizes steer the trace; the code that came of it does not look at them"
    groups = (("marks",),)
    return [Judgement("other", "same", why, name, "the marks of the trace", "others", case.where, "", groups)]


def judge_tensor(case: Case) -> list[Judgement]:
    """One judgement for each property that is not as expected."""
    torch = sys.modules["torch"]
    value = case.watch.value(case.scope)
    name = user_name(case.watch.source)
    if not isinstance(value, torch.Tensor):
        why = "the compiled code takes a tensor here, whatever is passed"
        groups = (("source", case.watch.source),)
        return [Judgement("type", "differs", why, name, "a tensor", show(value), case.where, "type", groups)]
    expected = case.expected.get(case.watch.source)
    if expected is None:
        why = "how the tensor differs could not be told"
        return [Judgement("other", "unknown", why, name, "", show(value), case.where)]
    found = list(_aspects(case, expected, value, name))
    return found or _keys(case, expected, value, name)


def _aspects(case: Case, expected: Expected, value: Any, name: str) -> Iterator[Judgement]:
    pytype = type(value).__name__
    if pytype != expected.pytype:
        yield _pytype(case, name, expected.pytype, pytype)
    for aspect, wanted, seen in (
        ("dtype", expected.dtype, str(value.dtype)),
        ("device", expected.device, str(value.device)),
    ):
        if wanted != seen:
            effect, why, where = _by_style(case, aspect, wanted)
            yield Judgement("type", effect, why, f"{name}.{aspect}", wanted, seen, where, aspect,
                            ((aspect, wanted, seen),))  # fmt: skip
    shape = _shape(case, expected, value, name)
    if shape is not None:
        yield shape
    if bool(value.requires_grad) != expected.requires_grad:
        yield _gradient(case, name, expected.requires_grad)


def _pytype(case: Case, name: str, wanted: str, seen: str) -> Judgement:
    if wanted in _PLAIN and seen in _PLAIN:
        effect, why = "same", "a Parameter is computed with like any tensor"
    elif case.facts.style == "ops":
        effect, why = "same", _BY_OPS
    else:
        effect, why = "unknown", f"the compiled code calls nothing that {seen} overrides"
    groups = (("pytype", wanted, seen), ("source", case.watch.source))
    return Judgement("type", effect, why, name, wanted, seen, case.where, "pytype", groups)


def _shape(case: Case, expected: Expected, value: Any, name: str) -> Judgement | None:
    """Rank, else sizes, else strides: the first says what the others follow from."""
    sizes = tuple(int(n) for n in value.shape)
    if len(sizes) != len(expected.sizes):
        rank = len(expected.sizes)
        seen_rank = f"{len(sizes)} dimensions: {list(sizes)}"
        return _shape_judgement(case, "rank", name, f"{rank} dimensions", seen_rank, ("rank", rank))
    for dim, (wanted, seen) in enumerate(zip(expected.sizes, sizes, strict=True)):
        if wanted is not None and wanted != seen:
            return _shape_judgement(case, "size", f"{name}.shape[{dim}]", str(wanted), str(seen),
                                    ("size", wanted, seen))  # fmt: skip
    for dim, (want, see) in enumerate(zip(expected.strides, value.stride(), strict=True)):
        if want is None or want == see:
            continue
        if sizes[dim] <= 1 or 0 in sizes:
            why = "the stride of a dimension with one element is never used"
            return Judgement("shape", "same", why, f"{name}.stride()[{dim}]", str(want), str(see), case.where,
                             "shape", (("stride of one",),))  # fmt: skip
        return _shape_judgement(case, "stride", f"{name}.stride()[{dim}]", str(want), str(see),
                                ("stride", want, see))  # fmt: skip
    return None


def _shape_judgement(
    case: Case, aspect: str, name: str, wanted: str, seen: str, group: tuple[Any, ...]
) -> Judgement:
    effect, why, where = _by_style(case, aspect, wanted)
    groups: tuple[Group, ...] = (group, ("strides", case.watch.source)) if aspect == "stride" else (group,)
    return Judgement("shape", effect, why, name, wanted, seen, where, "shape", groups)


def _by_style(case: Case, aspect: str, wanted: str) -> tuple[str, str, Where | None]:
    """Generated code relies on everything; a backend that calls ops only on what Python has read."""
    facts: Facts = case.facts
    properties = ("rank", "size") if aspect in ("rank", "size") else (aspect,)
    read, line = facts.read_at(case.watch.source, *properties)
    where = line or case.where
    if read:
        return "differs", _READ, where
    if facts.style == "generated":
        return "differs", _GENERATED.format(f"{aspect} {wanted}" if aspect != "rank" else wanted), where
    return ("same", _BY_OPS, where) if facts.style == "ops" else ("unknown", _MAY, where)


def _gradient(case: Case, name: str, wanted: bool) -> Judgement:
    read, line = case.facts.read_at(case.watch.source, "requires_grad")
    grad_on = sys.modules["torch"].is_grad_enabled()
    if read:
        effect, why = "differs", _READ
    elif wanted or not grad_on:
        effect, why = "same", "no gradient is asked for that the compiled code does not give"
    elif case.facts.style == "ops":
        effect, why = "same", _BY_OPS
    else:
        effect, why = "differs", "the compiled code was made without a backward for it: it gets no gradient"
    groups = (("requires_grad", wanted),)
    return Judgement("other", effect, why, f"{name}.requires_grad", str(wanted), str(not wanted),
                     line or case.where, "requires_grad", groups)  # fmt: skip


def _keys(case: Case, expected: Expected, value: Any, name: str) -> list[Judgement]:
    """Only the dispatch keys differ: inference tensors lack those of autograd.

    Where not even those do, autocast or the like stands between, which is told for itself.
    """
    traced = set(_KEY.findall(expected.keys))
    now = set(_KEY.findall(str(sys.modules["torch"]._C._dispatch_keys(value))))
    changed = traced ^ now
    if not changed:
        return []
    wanted, seen = (", ".join(sorted(keys & changed)) or "none of those" for keys in (traced, now))
    name = f"dispatch keys of {name}"
    if all(key.startswith("Autograd") or key == "ADInplaceOrView" for key in changed):
        why = "tensors of inference mode lack autograd's dispatch keys, which the compiled code does not use"
        groups: tuple[Group, ...] = (("state", "grad_mode"),)
        return [Judgement("other", "same", why, name, wanted, seen, None, "keys", groups)]
    why = "the tensor is wrapped, or dispatched in another way"
    groups = (("keys", frozenset(changed)),)
    return [Judgement("other", "unknown", why, name, wanted, seen, case.where, "keys", groups)]
