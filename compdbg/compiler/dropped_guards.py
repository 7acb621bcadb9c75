"""What becomes of guards: dropped, evaluated loudly, or checked by whoever records the run."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from compdbg import probe
from compdbg.compiler.guard_data import GuardRecord
from compdbg.compiler.warm_audit import WarmAudit


class ShapeGuardError(RuntimeError):
    """A call violates a guard on shapes that `evaluate_guards` keeps."""


def kept_guards(entries: Sequence[Any], *, evaluate: bool) -> list[bool]:
    """For torch's guard filter: which guards stay. None, or with `evaluate` those on shapes."""
    return [evaluate and entry.guard_type == "SHAPE_ENV" for entry in entries]


def guard_check(
    compiled: Any, function: Callable[..., Any], *, evaluate: bool, kept: GuardRecord | None
) -> Callable[..., None] | None:
    """What a call does before it runs: nothing, unless guards are evaluated or a run is recorded.

    A recorded run's hooks audit dropped guards from within torch's own check of the (empty) guards
    that were left, so that check has to be made. A model from the cache, for which torch has none,
    is audited by the guards `kept` with it.
    """
    recorded = probe.active()
    if not evaluate and not recorded:
        return None
    manager = compiled._artifacts.guard_manager
    locals_of = _locals_of(compiled, inspect.signature(function))
    audit = None
    if kept is not None and recorded and probe.audit() != "off":
        every = probe.audit() == "all"
        audit = WarmAudit(kept, function.__code__, function.__globals__, every_call=every)

    def check(*args: Any, **kwargs: Any) -> None:
        found = locals_of(args, kwargs)
        if audit is not None:
            audit(found)
        if not manager.check(found) and evaluate:
            raise ShapeGuardError(_explained(manager, found))

    return check


def _locals_of(
    compiled: Any, signature: inspect.Signature
) -> Callable[[tuple[Any, ...], dict[str, Any]], dict[str, Any]]:
    """The frame's locals from a call's arguments; without binding where they are all positional."""
    names = tuple(signature.parameters)
    simple = all(p.kind is p.POSITIONAL_OR_KEYWORD for p in signature.parameters.values())
    simple = simple and not compiled._artifacts.runtime_env.closure

    def locals_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        if simple and not kwargs and len(args) == len(names):
            return dict(zip(names, args, strict=True))
        return compiled.prepare_f_locals(*args, **kwargs)  # type: ignore[no-any-return]

    return locals_of


def _explained(manager: Any, found: dict[str, Any]) -> str:
    """The guard that failed, with the user's line as torch notes it."""
    parts = getattr(manager.check_verbose(found), "verbose_code_parts", None) or ["a guard on shapes"]
    return "this call violates what the model was compiled for: " + "; ".join(map(str, parts))
