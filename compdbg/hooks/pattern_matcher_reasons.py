"""The reason codes of a match that stopped at its first or second stage, from torch's own failure.

torch says `function_mismatch` for another op, a wrong arity and a missing keyword alike, so that
what the failed sub-pattern wanted is compared here with what the node has.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from compdbg.events import Reason
from compdbg.hooks import pattern_matcher_words as words
from compdbg.hooks.pattern_matcher_sites import expressions
from compdbg.hooks.pattern_matcher_words import is_node, is_op, plural, value


class Step(Struct):
    """One sub-pattern tried at one node (or constant), in the order of trying."""

    pattern: Any
    node: Any
    depth: int
    earlier: Any = None
    """The node that the sub-pattern stood for already."""
    result: Any = None


class Stop(Struct):
    """Where and why a match stopped."""

    reason: Reason
    node: Any
    """The FX node at which it stopped: the one found, or the one whose argument was wrong."""
    wanted: str
    found: str
    detail: str = ""
    matched: list[Any] = []
    downstream: bool = False
    boundary: str = ""


def explain(path: list[Step], standing: dict[Any, Any]) -> Stop:
    """The stop at the end of a failing path; `standing` is what each sub-pattern stands for."""
    step = path[-1]
    parent = next(s.node for s in reversed(path) if is_node(s.node))
    failed = step.result
    if _text(failed).startswith("list[") and len(failed.args) > 1:
        failed = failed.args[1]
    text = _text(failed)
    if text.startswith(("repeated pattern", "kwarg mismatch", "exclusive arg")):
        return _bound_twice(step, failed, text, parent)
    if text == "no anchor found":
        return _no_output(step.pattern, standing, parent)
    if is_op(step.pattern):
        return _at_op(step.pattern, step.node, failed, parent)
    if text.startswith("function_mismatch") and len(failed.args) == 2 and is_op(failed.args[1]):
        return _at_op(failed.args[1], failed.args[0], failed, parent)
    return Stop(_inner_reason(text), parent, words.wanted(step.pattern), words.found(step.node), str(failed))


def _text(failed: Any) -> str:
    return str(getattr(failed, "format_string", ""))


def _inner_reason(text: str) -> Reason:
    """For failures inside a list or a repeated pattern, whose steps torch does not hand out."""
    if text.startswith(("get_attr", "constant_args", "args_structure")):
        return "arg-mismatch"
    return "multiple-users" if text.startswith("multiple_users") else "other"


def _at_op(pattern: Any, node: Any, failed: Any, parent: Any) -> Stop:
    if not is_node(node):
        return Stop("target-mismatch", parent, words.wanted(pattern), words.found(node))
    if node.op != pattern.op or words.callee(node) not in pattern.fns_set:
        boundary = "input" if node.op == "placeholder" else ""
        return Stop("target-mismatch", node, words.wanted(pattern), words.found(node), boundary=boundary)
    return _at_right_op(pattern, node, failed)


def _at_right_op(pattern: Any, node: Any, failed: Any) -> Stop:
    text = _text(failed)
    if text.startswith("multiple_users"):
        return _users(pattern, node)
    if text.startswith("constant_args"):
        return _constant(pattern, node, failed)
    if not hasattr(pattern, "args"):
        return Stop("other", node, words.wanted(pattern), words.found(node), str(failed))
    if len(node.args) != len(pattern.args):
        return _arity(pattern, node)
    return _structure(pattern, node, str(failed))


def _arity(pattern: Any, node: Any) -> Stop:
    names = words.argument_names(node)
    wanted, given = len(pattern.args), len(node.args)
    extra = [f"{names(i)}={value(node.args[i])}" for i in range(wanted, given)]
    missing = [names(i) for i in range(given, wanted)]
    detail = f"{', '.join(extra)} is passed as well" if extra else f"{', '.join(missing)} is not passed"
    op = words.found(node)
    return Stop(
        "arg-mismatch", node, f"{op} with {plural(wanted, 'argument')}", plural(given, "argument"), detail
    )


def _users(pattern: Any, node: Any) -> Stop:
    users = list(node.users)
    dead = [u.name for u in users if u.op != "output" and not u.users and not u.is_impure()]
    detail = "the graph returns it" if any(u.op == "output" for u in users) else ""
    if dead:
        detail = f"nothing reads {', '.join(dead)}, but it counts as a user"
    wanted = f"{words.found(node)} with {plural(pattern.users, 'user')}"
    found = f"{plural(len(users), 'user')}: {', '.join(words.described(u) for u in users)}"
    return Stop("multiple-users", node, wanted, found, detail)


def _constant(pattern: Any, node: Any, failed: Any) -> Stop:
    given = failed.args[1] if len(failed.args) > 1 else None
    expected = failed.kwargs.get("pattern") if isinstance(failed.kwargs, dict) else None
    name = words.argument_of(pattern, node, given, expected)
    wanted = f"{name}={value(expected)} of {words.found(node)}"
    return Stop("arg-mismatch", node, wanted, f"{name}={value(given)}")


def _structure(pattern: Any, node: Any, text: str) -> Stop:
    op = words.found(node)
    if set(pattern.kwargs) - set(node.kwargs):
        wanted = ", ".join(f"{k}={words.wanted(v)}" for k, v in pattern.kwargs.items())
        found = ", ".join(f"{k}={value(v)}" for k, v in node.kwargs.items()) or "no keyword"
        return Stop("arg-mismatch", node, wanted, found, f"keywords of {op}")
    wanted, found = ", ".join(map(words.wanted, pattern.args)), ", ".join(map(value, node.args))
    return Stop("arg-mismatch", node, wanted, found, f"arguments of {op}: {text}"[:300])


def _bound_twice(step: Step, failed: Any, text: str, parent: Any) -> Stop:
    node = step.node if is_node(step.node) else parent
    if text.startswith("kwarg mismatch"):
        name = str(failed.args[0]) if failed.args else "?"
        return Stop("kwarg-mismatch", node, f"one value for {name}", "two values", str(failed))
    name = words.wanted(step.pattern)
    if text.startswith("exclusive arg"):
        wanted = f"a value of its own for {name}"
        return Stop("kwarg-mismatch", node, wanted, words.described(step.node), str(failed))
    before = words.described(step.earlier) if step.earlier is not None else "another node"
    return Stop("kwarg-mismatch", node, f"{name} is {before} again", words.described(step.node))


def _no_output(pattern: Any, standing: dict[Any, Any], anchor: Any) -> Stop:
    """A further output of the pattern has no candidate among the users of what it shares."""
    further = [o for o in pattern.outputs[1:] if o is not None]
    output = next((o for o in further if standing.get(o) is None), pattern.outputs[-1])
    shared = [e for e in expressions(output) if is_node(standing.get(e))]
    if not shared:
        text = "this output of the pattern shares nothing with its anchor"
        return Stop("other", anchor, words.wanted(output), "no anchor found", text)
    node = standing[next(filter(is_op, shared), shared[0])]
    users = list(node.users)
    boundary = "output" if users and all(u.op == "output" or u is anchor for u in users) else ""
    wanted = f"{words.wanted(output)} among the users of {node.name}"
    found = ", ".join(map(words.described, users)) or "no user"
    return Stop("target-mismatch", node, wanted, found, downstream=True, boundary=boundary)
