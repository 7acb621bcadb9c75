"""The recompiles of one cause in words: what varies, with which values, and what to do."""

from __future__ import annotations

import re
from collections.abc import Iterable

from compdbg.findings.words import at, counted, sentence, trend
from compdbg.model.recompiles import Group
from compdbg.model.trends import Forecast

_CAUSES = {
    "none-or-value": "none-or-tensor",
    "shape": "shape-axis",
}
"""How a cause is called in `data` where the model's word is shorter."""

_WHAT = {
    "shape": "size {axis} of {subject}",
    "stride": "stride {axis} of {subject}",
    "zero-one": "{subject} being 0 or 1",
    "branch": "a branch on size {axis} of {subject}",
    "value": "the argument {subject}",
    "constant": "the argument {subject}",
    "attribute": "the attribute {subject}",
    "global": "the global {subject}",
    "closure": "the closed-over value {subject}",
    "instance": "the instance (self)",
    "identity": "the object {subject}",
    "type": "the type of {subject}",
    "none-or-value": "{subject} being None or not",
    "container": "the length of {subject}",
    "grad-mode": "the grad mode",
    "global-state": "global state ({subject})",
    "backend": "the backend",
    "aliasing": "which inputs are one tensor",
    "training-mode": "the mode (train or eval)",
    "other": "the guard {subject}",
}

_ADVICE = {
    "shape": "Mark the axis with torch._dynamo.mark_dynamic({subject}, {axis}), or compile with "
    "dynamic=True; where the code itself fixes the size (a loop over it, a comparison with it, a tensor of "
    "that size), change that.",
    "stride": "Pass tensors of one layout: .contiguous() before the call, or slice inside the function.",
    "branch": "Take the branch on the size outside the compiled function, or pad to a few sizes.",
    "value": "Pass the number as a tensor, or compile with dynamic=True.",
    "constant": "Pass fewer distinct values, or take the choice outside the compiled function.",
    "attribute": "Keep what changes in a tensor (a buffer), or pass it as an argument: an attribute is a "
    "constant of the graph.",
    "int-attribute": "Keep the changing number in a tensor (a buffer), pass it as an argument, or set "
    "torch._dynamo.config.allow_unspec_int_on_nn_module = True.",
    "global": "Pass the changing value as an argument, or keep it in a tensor.",
    "closure": "Pass the value as an argument instead of closing over it.",
    "instance": "Compile one function that takes what differs as arguments, or each instance on its own.",
    "identity": "Create the object once and pass the same one on every call: a new function, closure or "
    "object has a new identity each time.",
    "container": "Keep the container's length fixed: preallocate, or pass one stacked tensor.",
    "grad-mode": "Call under one grad mode, or compile one function for each.",
    "backend": "Make the backend once and pass the same object to every torch.compile.",
    "none-or-value": "Pass a tensor on every call (a zero or a mask for the absent one).",
}
_CARRIED = re.compile(r"___stack\d+")
_WITHOUT_BREAK = (
    "Do away with the graph break at {line}: what crosses it as a Python value is a constant of the code "
    "after it."
)
_OTHERWISE = "Keep {what} the same from call to call, or compile one function for each variant."


def axis_of(group: Group) -> str:
    """What varies: `size 1 of k`, `the attribute self.seen`."""
    if _is_carried(group):
        return f"the value from the graph break at {at(group.where)}"
    pattern = _WHAT.get(group.cause, f"{group.cause} of {{subject}}")
    axis = "" if group.axis is None else group.axis
    return " ".join(pattern.format(subject=group.subject, axis=axis).split())


def _is_carried(group: Group) -> bool:
    """A result of the call at which the graph breaks; Dynamo has a name of its own for it."""
    return group.resumed and group.where is not None and _CARRIED.search(group.subject) is not None


def said(group: Group) -> str:
    """The group as a sentence, with the values seen and one guard that failed."""
    values = f", values seen: {trend(group.values)}" if len(group.values) > 1 else ""
    moves = f", {group.trend}" if group.trend and group.trend != "new each time" else ""
    text = (
        f"{axis_of(group)} changed {counted(group.recompiles, 'time')}{_on_calls(group)}{values}{moves}; "
        f"failed guard: {group.guard}"
    )
    return sentence(text[0].upper() + text[1:])


def _on_calls(group: Group) -> str:
    """The calls that had to wait for a compile."""
    calls = [str(call) for call in group.calls if call is not None]
    return f" (on call{'s' * (len(calls) > 1)} {trend(calls)})" if calls else ""


def outlook(found: Forecast | None) -> str:
    """What comes next if it goes on like this."""
    if found is None:
        return ""
    return (
        f" {found.entries} of the {found.limit} entries that torch makes for one function are used; "
        f"at this rate calls run eager from call {found.eager_from_call} on."
    )


def advice(groups: Iterable[Group]) -> str:
    """What to do, once for each cause: the first group of it is what the user passes."""
    first: dict[object, Group] = {}
    for group in groups:
        first.setdefault((group.cause, _is_carried(group)), group)
    return " ".join(dict.fromkeys(_advice(group) for group in first.values()))


def _advice(group: Group) -> str:
    if _is_carried(group):
        return _WITHOUT_BREAK.format(line=at(group.where))
    cause = _cause(group)
    pattern = _ADVICE.get(cause if cause in _ADVICE else group.cause, _OTHERWISE)
    axis = 0 if group.axis is None else group.axis
    return pattern.format(subject=group.subject, axis=axis, what=axis_of(group))


def rows(groups: Iterable[Group]) -> list[dict[str, object]]:
    """The groups as data."""
    return [
        {
            "cause": _cause(group),
            "subject": group.subject,
            "axis": group.axis,
            "recompiles": group.recompiles,
            "values": group.values,
            "calls": group.calls,
            "trend": group.trend,
            "guard": group.guard,
        }
        for group in groups
    ]


def _cause(group: Group) -> str:
    if group.cause == "attribute" and all(value.lstrip("-").isdecimal() for value in group.values):
        return "int-attribute"
    return _CAUSES.get(group.cause, group.cause)
