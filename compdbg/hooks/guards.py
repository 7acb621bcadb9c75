"""Guards: all that torch builds for a compiled entry, which it keeps, and the audit of the others.

With a filter torch builds all guards, asks the filter, and builds again what it keeps. The first of
these trees it throws away; we keep it, and check later calls against it.
"""

from __future__ import annotations

import functools
import inspect
import sys
import weakref
from collections.abc import Callable
from types import CodeType
from typing import Any

from compdbg import probe
from compdbg.events import Guard, Guards
from compdbg.events.guards import LOADED
from compdbg.hooks import (
    compile_facts,
    current,
    frame_calls,
    graph_facts,
    guard_building,
    shape_guards,
    size_branches,
    tensor_reads,
)
from compdbg.hooks.audit import Audit, auditor
from compdbg.hooks.audit_budget import Budget
from compdbg.hooks.audit_causes import Causes
from compdbg.hooks.audit_state import State
from compdbg.hooks.audit_tree import Tree
from compdbg.hooks.audit_watches import AliasWatch, Watch
from compdbg.hooks.base import Hook, Part, Patches, Target, contained
from compdbg.hooks.frame_calls import Tally, calls_of
from compdbg.hooks.guard_building import Building
from compdbg.hooks.guard_records import name_of_filter
from compdbg.record import options

__all__ = ["HOOK", "calls_of"]

_MANAGER = "torch._dynamo.guards:CheckFunctionManager"
INIT = Target(f"{_MANAGER}.__init__", ("f_code", "output_graph", "guard_filter_fn"))
BUILD = Target(f"{_MANAGER}.build_guards", ("sorted_guards", "f_code", "output_graph"))
RESET = Target("torch._dynamo:reset_code_caches")
TENSOR_TEXT = Target("torch._dynamo.guards:get_tensor_guard_code_part", ("value", "name", "sizes", "strides"))

_NAME = ["___compdbg_audit()"]
_OFF = "switched off: --audit off"
_KEPT = "torch checks them on every call"
_LOADED = "loaded with its artifact, which does not say which guards were dropped when it was made"


def _install_guards(patches: Patches) -> None:
    if patches.wrap(BUILD, _on_build):
        patches.wrap(INIT, _on_init)
    patches.wrap(TENSOR_TEXT, _on_tensor)


def _on_init(original: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(original)

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        building, given = None, {}
        if probe.active():
            with contained("guards"):
                given = signature.bind(self, *args, **kwargs).arguments
                if not getattr(given["output_graph"], "export", False):
                    building = _begin(self, given.get("guard_filter_fn"))
        if building is None:
            original(self, *args, **kwargs)
            return
        guard_building.push(building)
        try:
            original(self, *args, **kwargs)
        finally:
            guard_building.pop()
        with contained("guards"):
            _finish(building, self.guard_manager, given["f_code"])

    return __init__


def _begin(manager: Any, guard_filter: Any) -> Building:
    config = sys.modules.get("torch._dynamo.config")
    by = name_of_filter(guard_filter) if guard_filter is not None else ""
    if not by and getattr(config, "caching_precompile", False):
        by = "torch._dynamo.config.caching_precompile"
    facts = compile_facts.take(current.compile_id())
    return Building(manager, facts, by, audit=bool(by) and options.current().audit != "off")


def _on_build(original: Callable[..., Any]) -> Callable[..., Any]:
    def build_guards(self: Any, sorted_guards: Any, *args: Any, **kwargs: Any) -> Any:
        building = guard_building.of(self)
        if building is None:
            return original(self, sorted_guards, *args, **kwargs)
        return building.build(functools.partial(original, self), sorted_guards, args, kwargs)

    return build_guards


def _on_tensor(original: Callable[..., Any]) -> Callable[..., Any]:
    def get_tensor_guard_code_part(value: Any, name: str, sizes: Any, strides: Any, *more: Any) -> Any:
        text = original(value, name, sizes, strides, *more)
        building = guard_building.innermost()
        if building is not None:
            with contained("guards"):
                building.note_tensor(text, value, name, sizes, strides, *more)
        return text

    return get_tensor_guard_code_part


def _finish(building: Building, guard_manager: Any, code: CodeType) -> None:
    """The entry is made: record its guards, and let its calls be counted or audited."""
    facts = building.facts
    records = building.records()
    tally = frame_calls.open_tally(code, facts.compile_id or LOADED)
    if tally.compile_id == LOADED:
        tally.reach = 0
    dropped = bool(building.dropped_by) and any(not record.kept for record in records)
    mode = options.current().audit
    tally.audited = dropped and building.tree is not None
    tally.cached = sys.modules["torch._guards"].CompileContext.current_compile_id() is not None
    size_branches.emit_branches(facts, tally.frame)
    tally.guards_event = probe.emit(
        Guards(
            frame=tally.frame,
            compile_id=tally.compile_id,
            guards=records,
            drop_requested=bool(building.dropped_by),
            audit="not-audited" if not tally.audited else "on" if mode == "all" else "sampled",
            audit_reason="" if tally.audited else _why_not(tally, dropped),
        )
    )
    guard = _auditing(building, records, tally, mode) if tally.audited else frame_calls.counter(tally)
    tally.guard = weakref.ref(guard)
    _attach(guard, guard_manager)


def _attach(guard: Callable[[Any], bool], guard_manager: Any) -> None:
    """Add an always-true guard to the entry, and to the short form that a stance may have torch check.

    An entry without any guard has no short form, and passes; with ours it must have one, to pass.
    """
    root, short = guard_manager.root, guard_manager.diff_guard_root
    if short is None and not _has_guards(root):
        short = guard_manager.diff_guard_root = type(root)()
    for manager in (root, short):
        if manager is not None:
            manager.add_epilogue_lambda_guard(guard, _NAME, None)


def _has_guards(root: Any) -> bool:
    return bool(root.get_leaf_guards() or root.get_child_managers() or root.get_epilogue_lambda_guards())


def _why_not(tally: Tally, dropped: bool) -> str:
    if tally.compile_id == LOADED:
        return _LOADED
    return _OFF if dropped else _KEPT


def _auditing(building: Building, records: list[Guard], tally: Tally, mode: str) -> Callable[[Any], bool]:
    torch = sys.modules["torch"]
    audit = Audit(
        Tree(building.tree, records),
        State(building.state, records),
        _alias_watches(building, records),
        Causes(tally, building.facts, building.expected),
        tally,
        building.global_scope,
    )
    tally.on_close = _stopper(weakref.ref(audit))
    return auditor(audit, tally, Budget(mode == "all", (torch.Tensor, torch.nn.Parameter)))


def _stopper(audit: weakref.ref[Audit]) -> Callable[[], None]:
    def stop() -> None:
        living = audit()
        if living is not None:
            living.stop()

    return stop


def _alias_watches(building: Building, records: list[Guard]) -> list[Watch]:
    """Whether inputs are one tensor matters only if the graph writes to one of them."""
    names, facts = building.dropped_aliasing, building.facts
    mutated = facts.mutated.intersection(names)
    if not mutated or facts.style == "ops":
        return []
    record = next((r for r in records if r.type == "NO_TENSOR_ALIASING"), None)
    return [AliasWatch(names, mutated, record)]


def _install_dynamo(patches: Patches) -> None:
    def observe(original: Callable[..., Any]) -> Callable[..., Any]:
        def reset_code_caches(*args: Any, **kwargs: Any) -> Any:
            answer = original(*args, **kwargs)
            with contained("guards"):
                frame_calls.close_cached()
            return answer

        return reset_code_caches

    patches.wrap(RESET, observe)


def _install_output_graph(patches: Patches) -> None:
    graph_facts.install(patches)


def _install_symbolic_shapes(patches: Patches) -> None:
    shape_guards.install(patches)
    size_branches.install_symbolic_shapes(patches)


def _install_variables(patches: Patches) -> None:
    size_branches.install_variables(patches)
    tensor_reads.install(patches)


HOOK = Hook(
    "guards",
    (
        Part("torch._dynamo", _install_dynamo),
        Part("torch._dynamo.guards", _install_guards),
        Part("torch._dynamo.output_graph", _install_output_graph),
        Part("torch._dynamo.variables.tensor", _install_variables),
        Part("torch.fx.experimental.symbolic_shapes", _install_symbolic_shapes),
    ),
    (
        INIT, BUILD, RESET, TENSOR_TEXT, graph_facts.BACKEND, shape_guards.PLACE, shape_guards.UNINTERESTING,
        size_branches.EVALUATE, size_branches.COMPARE, *tensor_reads.TARGETS,
    ),
    proof=(Guards,),
)  # fmt: skip

probe.at_end(frame_calls.tell_all)
probe.at_end(frame_calls.forget_all)
probe.at_fork(frame_calls.drop_parents_counts)
