"""A compiled entry whose guards are built: recorded, and given a guard of ours that counts or audits."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from types import CodeType
from typing import Any

from compdbg import probe
from compdbg.events import Guard, Guards
from compdbg.events.guards import LOADED
from compdbg.hooks import frame_calls, size_branches
from compdbg.hooks.audit import Audit, auditor
from compdbg.hooks.audit_budget import Budget
from compdbg.hooks.audit_causes import Causes
from compdbg.hooks.audit_skipped import Skipped, skipping
from compdbg.hooks.audit_state import State
from compdbg.hooks.audit_tree import Tree
from compdbg.hooks.audit_watches import AliasWatch, Watch
from compdbg.hooks.frame_calls import Tally
from compdbg.hooks.guard_building import Building
from compdbg.record import options

Check = Callable[[Any], bool]
_NAME = ["___compdbg_audit()"]
_OFF = "switched off: --audit off"
_OTHER_TORCH = "this torch builds its guards in another way than those that compdbg knows"
_KEPT = "torch checks them on every call"
_LOADED = "loaded with its artifact, which does not say which guards were dropped when it was made"


def enter(building: Building, guard_manager: Any, code: CodeType) -> None:
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
            audit_reason="" if tally.audited else _why_not(tally, dropped, mode),
        )
    )
    if tally.audited:
        guard = of_short_form = _auditing(building, records, tally, mode)
    else:
        guard = of_short_form = frame_calls.counter(tally)
        if mode != "off" and not dropped:
            facts.forget_sizes()
            skipped = Skipped(guard_manager, tally, facts, building.global_scope)
            of_short_form = skipping(skipped, tally, _budget(mode), guard)
    tally.guard = weakref.ref(guard)
    _attach(guard, of_short_form, guard_manager)


def _attach(guard: Check, of_short_form: Check, guard_manager: Any) -> None:
    """Add an always-true guard to the entry, and to the short form that a stance may have torch check.

    An entry without any guard has no short form, and passes; with ours it must have one, to pass.
    """
    root, short = guard_manager.root, getattr(guard_manager, "diff_guard_root", None)
    if short is None and not _has_guards(root):
        short = guard_manager.diff_guard_root = type(root)()
    root.add_epilogue_lambda_guard(guard, _NAME, None)
    if short is not None:
        short.add_epilogue_lambda_guard(of_short_form, _NAME, None)


def _has_guards(root: Any) -> bool:
    return bool(root.get_leaf_guards() or root.get_child_managers() or root.get_epilogue_lambda_guards())


def _why_not(tally: Tally, dropped: bool, mode: str) -> str:
    if tally.compile_id == LOADED:
        return _LOADED
    if not dropped:
        return _KEPT
    return _OFF if mode == "off" else _OTHER_TORCH


def _budget(mode: str) -> Budget:
    torch = sys.modules["torch"]
    return Budget(mode == "all", (torch.Tensor, torch.nn.Parameter))


def _auditing(building: Building, records: list[Guard], tally: Tally, mode: str) -> Check:
    audit = Audit(
        Tree(building.tree, records),
        State(building.state, records),
        _alias_watches(building, records),
        Causes(tally, building.facts, building.expected),
        tally,
        building.global_scope,
    )
    tally.on_close = _stopper(weakref.ref(audit))
    return auditor(audit, tally, _budget(mode))


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
