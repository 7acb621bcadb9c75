"""From an attempt that came to nothing to its near miss: each end that a match can have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from msgspec import Struct

from compdbg.events import NearMiss, Reason, Where
from compdbg.hooks.base import report_error
from compdbg.hooks.pattern_matcher_entries import EntryInfo, cells, function_name, unwrapped
from compdbg.hooks.pattern_matcher_kinds import is_common
from compdbg.hooks.pattern_matcher_likeness import evidence
from compdbg.hooks.pattern_matcher_lint import registration_of
from compdbg.hooks.pattern_matcher_reasons import Stop
from compdbg.hooks.pattern_matcher_sites import is_anchor, site_of
from compdbg.hooks.pattern_matcher_trace import differing_ops, find_stop, second_reason
from compdbg.hooks.pattern_matcher_words import described, op_name
from compdbg.hooks.userline import of_node

MAX_NEAR = 16
_MAX_DETAIL = 300


class Near(NamedTuple):
    """Names of nodes of the pattern's other ops, and how many of them make a near miss."""

    names: list[str] = []
    enough: int = 1


Ended = tuple[Near, NearMiss | None]
"""What of the pattern's other ops is near, and where matching stopped."""


class Tried(Struct):
    """One entry's pattern at one anchor node."""

    matcher: Any
    entry: EntryInfo
    pattern: Any
    node: Any


def examined(look: Callable[..., Ended], tried: Tried, *more: Any) -> Ended:
    """`look(tried, ...)`; an attempt that can't be looked into is still an attempt."""
    try:
        return look(tried, *more)
    except Exception as error:
        report_error("pattern_matcher", error)
        return Near(), NearMiss(reason="other", stage="first", detail="the attempt could not be looked into")


def at_first_stage(tried: Tried) -> Ended:
    """The loose match failed. An anchor that, looked through, is another op is no site at all."""
    if not is_anchor(tried.node, tried.entry.ops):
        return Near(), None
    stop = find_stop(tried.matcher, tried.pattern, tried.node)
    if stop is None:
        return Near(), None
    return _ended(tried, stop, stop.reason, "first")


def checked_away(
    tried: Tried, check: Callable[[Any], Any] | None, second: tuple[Any, Any, Any] | None, trace_error: str
) -> Ended:
    """The extra check said no: torch's own second match in it failed, or the user's check did."""
    if not tried.entry.retraces or check is None:
        return _refused(tried, check)
    if second is None:
        text = (
            trace_error
            or "the inputs are not what the pattern can be traced with (an integer that needs grad)"
        )
        return _whole(
            tried, "retrace-mismatch", "second", "the pattern traced at the real inputs", "no trace", text
        )
    pattern, node, result = second
    if result:
        return _refused(tried, cells(check).get("extra_check"))
    stop = find_stop(tried.matcher, pattern, node)
    if stop is None:
        return _whole(
            tried, "retrace-mismatch", "second", "the pattern traced at the real inputs", "", str(result)
        )
    dtypes_differ = _dtypes_differ(tried, stop)
    reason = second_reason(stop, tried.pattern, pattern, dtypes_differ)
    if reason in ("dtype-mismatch", "shape-mismatch"):
        ops = ", ".join(sorted(map(op_name, differing_ops(tried.pattern, pattern))))
        stop.detail = f"traced at the real inputs, the pattern differs by {ops} from what was registered"
    return _ended(tried, stop, reason, "second")


def discarded(tried: Tried, match: Any) -> Ended:
    """The pattern matched and torch let the match go: its nodes lie across a boundary."""
    nodes = sorted(match.nodes)
    if len({n.meta.get("mutation_region_id") for n in nodes}) != 1:
        between = [n for n in _between(nodes[0], nodes[-1]) if tried.matcher.is_mutation_op(n)]
        found = ", ".join(map(described, between)) or "an op that mutates"
        wanted = "no mutation between the pattern's nodes"
        return _whole(tried, "mutation-region", "discard", wanted, found, _region_detail(nodes))
    if len({_place(n) for n in nodes}) > 1:
        found = ", ".join(f"{n.name} on {_place(n)}" for n in nodes)
        return _whole(tried, "stream-boundary", "discard", "one stream and memory pool", found)
    return _whole(tried, "other", "discard", "", "", "torch matched the pattern and did not use the match")


def unsupported(tried: Tried) -> Ended:
    """torch skipped the anchor before it tried the pattern, for the dtype of its values."""
    if not is_anchor(tried.node, tried.entry.ops):
        return Near(), None
    stop = find_stop(tried.matcher, tried.pattern, tried.node)
    dtypes = {str(d) for n in [tried.node, *tried.node.all_input_nodes] if (d := _dtype(n)) is not None}
    wanted = "a dtype that Inductor generates code for"
    whole, miss = _whole(tried, "unsupported-dtype", "discard", wanted, ", ".join(sorted(dtypes)))
    return whole if stop is None else _near(tried, stop), miss


def _refused(tried: Tried, check: Any) -> Ended:
    function = unwrapped(check)
    code = getattr(function, "__code__", None)
    where = (
        Where(code.co_filename, code.co_firstlineno, function_name(function)) if code is not None else None
    )
    name = function_name(function) if function is not None else "the extra check"
    detail = f"{where.file.rpartition('/')[2]}:{where.line}" if where is not None else ""
    return _whole(tried, "extra-check", "check", f"{name} to accept the match", "it refused", detail)


def _whole(tried: Tried, reason: Reason, stage: str, wanted: str, found: str, detail: str = "") -> Ended:
    """A miss of a pattern that matched as a whole."""
    ops = tried.entry.ops
    miss = NearMiss(
        reason=reason,
        stage=stage,
        node=site_of(tried.node).name,
        wanted=wanted,
        found=found,
        matched_nodes=ops.nodes,
        pattern_nodes=ops.nodes,
        where=of_node(tried.node),
        detail=detail[:_MAX_DETAIL],
    )
    return _evidence(tried, tried.node, [], False), miss


def _ended(tried: Tried, stop: Stop, reason: Reason, stage: str) -> Ended:
    node, near = stop.node, _near(tried, stop)
    crosses = stop.boundary == "input" and (near.names or _is_rare(tried, stop.wanted))
    miss = NearMiss(
        reason=reason,
        stage=stage,
        node=node.name,
        wanted=stop.wanted,
        found=stop.found,
        matched_nodes=len(stop.matched),
        pattern_nodes=tried.entry.ops.nodes,
        where=of_node(node) or of_node(tried.node),
        detail=stop.detail[:_MAX_DETAIL],
        boundary=stop.boundary,
        edge_index=_input_index(node) if crosses else None,
    )
    return near, miss


def _is_rare(tried: Tried, wanted: str) -> bool:
    """Whether an op that is looked for beyond a split's edge would show the pattern by itself."""
    return any(op_name(t) in wanted for part in tried.entry.parts for t in part.targets if not is_common(t))


def _input_index(placeholder: Any) -> int:
    inputs = placeholder.graph.find_nodes(op="placeholder")
    return next(i for i, node in enumerate(inputs) if node is placeholder)


def _near(tried: Tried, stop: Stop) -> Near:
    return _evidence(tried, stop.node, stop.matched, stop.downstream)


def _evidence(tried: Tried, stopped: Any, matched: list[Any], downstream: bool) -> Near:
    entry = tried.entry
    nodes, enough = evidence(tried.node, stopped, entry.ops, entry.parts, matched, downstream)
    names = [node.name for node in nodes[:MAX_NEAR]]
    return Near(names, max(1, enough - max(0, len(nodes) - MAX_NEAR)))


def _dtypes_differ(tried: Tried, stop: Stop) -> bool:
    """Whether values around the stop have a dtype that none of the registered example inputs had."""
    known = registration_of(tried.pattern)
    seen = {_dtype(n) for m in [tried.node, stop.node] for n in [m, *m.all_input_nodes]} - {None}
    return known is not None and bool(seen) and not {str(d) for d in seen} <= set(known.dtypes)


def _dtype(node: Any) -> Any:
    value = node.meta.get("val", node.meta.get("example_value"))
    return getattr(value, "dtype", None)


def _place(node: Any) -> str:
    custom = node.meta.get("custom", {})
    pool = f", pool {custom['mempool']}" if custom.get("mempool") is not None else ""
    return f"stream {custom.get('stream', 0)}{pool}"


def _region_detail(nodes: list[Any]) -> str:
    return ", ".join(f"{n.name} in region {n.meta.get('mutation_region_id')}" for n in nodes)


def _between(first: Any, last: Any) -> list[Any]:
    found, node = [], first.next
    while node is not last and node.op != "root":
        found.append(node)
        node = node.next
    return found
