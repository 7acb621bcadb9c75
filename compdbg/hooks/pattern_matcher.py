"""Inductor's pattern matcher: every `apply` of a pass, and every attempt of a custom pattern.

Custom is what was made or registered outside torch. Of torch's own hundreds of patterns attempts
and matches are counted; `--inductor-patterns` notes them one by one too.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from compdbg import probe
from compdbg.events import MatchAttempt, PatternPass, PatternPassMade, PatternRegistered
from compdbg.hooks.base import Hook, Part, Patches, Target, contained, report_error
from compdbg.hooks.pattern_matcher_apply import Applying
from compdbg.hooks.pattern_matcher_checks import NAME, applying_here, unwatch_checks, watch_checks
from compdbg.hooks.pattern_matcher_entries import made_in_torch
from compdbg.hooks.pattern_matcher_lint import examine, watched_elimination, watching_dead_code
from compdbg.hooks.pattern_matcher_owner import Owner, maker_of, owner_of
from compdbg.hooks.pattern_matcher_passes import graph_number, info_of, made
from compdbg.hooks.pattern_matcher_report import report
from compdbg.hooks.userline import of_caller

_MODULE = "torch._inductor.pattern_matcher"
_PASS_INIT = Target(f"{_MODULE}:PatternMatcherPass.__init__", ("pass_name",))
_APPLY = Target(f"{_MODULE}:PatternMatcherPass.apply", ("gm",))
_MATCH = Target(f"{_MODULE}:PatternExpr.match", ("node",))
_MATCH_MULTI = Target(f"{_MODULE}:MultiOutputPattern.match", ("node",))
_CONTEXT = Target(f"{_MODULE}:MatchContext.match", ("pattern", "node"))
_GENERATE = Target(f"{_MODULE}:gen_pattern_and_search_gm", ("search_fn", "trace_fn"))
_TRACE_FAILURE = Target(f"{_MODULE}:log_trace_failure", ("e",))
_UNSUPPORTED = Target(f"{_MODULE}:fallback_node_due_to_unsupported_type", ("node",))
_APPLY_ENTRY = tuple(
    Target(f"{_MODULE}:{cls}.apply", ("match",))
    for cls in ("ReplacementPatternEntry", "GraphPatternEntry", "LoweringPatternEntry")
)
_REGISTER = Target(f"{_MODULE}:PatternEntry.register", ("pass_dicts",))
_DEAD_CODE = Target("torch.fx:Graph.eliminate_dead_code")


def _making(original: Any) -> Any:
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        with contained(NAME):
            maker = sys._getframe(1)
            if not made_in_torch(maker):
                info = made(self, True, of_caller(2), maker_of(maker))
                event = PatternPassMade(pass_id=info.id, pass_name=info.pass_name, where=info.where)
                probe.emit(event)

    return __init__


def _applying(original: Any) -> Any:
    def apply(self: Any, gm: Any, *args: Any, **kwargs: Any) -> Any:
        applying = _begin(self, gm) if probe.active() else None
        if applying is None:
            return original(self, gm, *args, **kwargs)
        stack = applying_here()
        stack.append(applying)
        count = None
        try:
            count = original(self, gm, *args, **kwargs)
        finally:
            stack.pop()
            _end(applying, count)
        return count

    return apply


def _begin(matcher_pass: Any, gm: Any) -> Applying | None:
    try:
        info = info_of(matcher_pass)
        info.refresh(matcher_pass)
        watch_checks(info)
        graph = gm if hasattr(gm, "find_nodes") else gm.graph
        owner = owner_of(matcher_pass, info.maker, 3) if info.custom else Owner(None, "")
        return Applying(sys.modules[_MODULE], info, graph, graph_number(graph), owner)
    except Exception as error:
        report_error(NAME, error)
        return None


def _end(applying: Applying, count: Any) -> None:
    with contained(NAME):
        applying.settle()
        event = applying.as_event(count if isinstance(count, int) else 0)
        if event.custom or event.attempted:
            report(applying, event)


def _matching(original: Any) -> Any:
    def match(self: Any, node: Any) -> Any:
        stack = applying_here()
        if not stack:
            return original(self, node)
        applying = stack[-1]
        if not applying.info.traced:
            applying.attempted += id(self) in applying.info.by_pattern
            return original(self, node)
        entry = None
        try:
            entry = applying.trying(self, node)
        except Exception as error:
            report_error(NAME, error)
        started = time.perf_counter()
        result = original(self, node)
        seconds = time.perf_counter() - started
        try:
            applying.tried(entry, self, node, result, seconds)
        except Exception as error:
            report_error(NAME, error)
        return result

    return match


def _applying_entry(original: Any) -> Any:
    def apply(self: Any, match: Any, *args: Any, **kwargs: Any) -> Any:
        stack = applying_here()
        if not stack:
            return original(self, match, *args, **kwargs)
        if stack[-1].undecided is not None:
            with contained(NAME):
                stack[-1].applied(match)
        region = None
        with contained(NAME):
            region = stack[-1].replacing(self, match)
        result = original(self, match, *args, **kwargs)
        if region is not None:
            with contained(NAME):
                stack[-1].replaced(self, region)
        return result

    return apply


def _tracing_failed(original: Any) -> Any:
    def log_trace_failure(search_fn: Any, e: Any) -> Any:
        stack = applying_here()
        if stack and stack[-1].checking is not None:
            with contained(NAME):
                stack[-1].checking.trace_error = f"{type(e).__name__}: {e}"[:300]
        return original(search_fn, e)

    return log_trace_failure


def _skipping(original: Any) -> Any:
    def fallback_node_due_to_unsupported_type(node: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(node, *args, **kwargs)
        stack = applying_here()
        if result and stack and stack[-1].info.traced:
            with contained(NAME):
                stack[-1].skipped(node)
        return result

    return fallback_node_due_to_unsupported_type


def _generating(original: Any) -> Any:
    def gen_pattern_and_search_gm(*args: Any, **kwargs: Any) -> Any:
        if made_in_torch(sys._getframe(1)):
            return original(*args, **kwargs)
        search_fn = args[0] if args else kwargs.get("search_fn")
        with watching_dead_code(search_fn) as dropped:
            pattern, search_gm = original(*args, **kwargs)
        with contained(NAME):
            examine(sys.modules[_MODULE], pattern, search_gm, dropped)
        return pattern, search_gm

    return gen_pattern_and_search_gm


def _registering(original: Any) -> Any:
    def register(self: Any, pass_dicts: Any, target: Any = None, *args: Any, **kwargs: Any) -> Any:
        result = original(self, pass_dicts, target, *args, **kwargs)
        if target is None and not made_in_torch(sys._getframe(1)):
            with contained(NAME):
                _tell_registered(self, pass_dicts)
        return result

    return register


def _tell_registered(entry: Any, pass_dicts: Any) -> None:
    """A pattern from outside, put into a pass of torch's own: it is enabled by being there."""
    kind = sys.modules[_MODULE].PatternMatcherPass
    for matcher_pass in pass_dicts if isinstance(pass_dicts, (list, tuple)) else [pass_dicts]:
        if not isinstance(matcher_pass, kind):
            continue
        info = info_of(matcher_pass)
        if info.made_outside_torch:
            continue
        info.refresh(matcher_pass)
        name = info.name_of(entry)
        event = PatternRegistered(
            pass_id=info.id, pass_name=info.names(Owner(None, ""))[0], pattern=name, where=of_caller(3)
        )
        probe.emit(event)


def _install(patches: Patches) -> None:
    patches.wrap(_PASS_INIT, _making)
    patches.wrap(_APPLY, _applying)
    patches.wrap(_MATCH, _matching)
    patches.wrap(_MATCH_MULTI, _matching)
    patches.wrap(_GENERATE, _generating)
    patches.wrap(_REGISTER, _registering)
    patches.wrap(_TRACE_FAILURE, _tracing_failed)
    patches.wrap(_UNSUPPORTED, _skipping)
    patches.wrap(_DEAD_CODE, watched_elimination)
    for target in _APPLY_ENTRY:
        patches.wrap(target, _applying_entry)
    patches.on_undo(unwatch_checks)


HOOK = Hook(
    NAME,
    (Part(_MODULE, _install),),
    (
        _PASS_INIT, _APPLY, _MATCH, _MATCH_MULTI, _CONTEXT, _GENERATE, _REGISTER, _TRACE_FAILURE,
        _UNSUPPORTED, _DEAD_CODE, *_APPLY_ENTRY,
    ),
    proof=(PatternPass, MatchAttempt),
)  # fmt: skip
