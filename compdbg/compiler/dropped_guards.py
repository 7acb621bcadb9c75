"""What becomes of guards: dropped, evaluated loudly, or checked by whoever records the run."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from compdbg import probe
from compdbg.compiler.guard_audit import PIECES, DataAudit
from compdbg.compiler.guard_check import Checker, Violation
from compdbg.compiler.guard_data import GuardRecord
from compdbg.events.guards import LOADED


class ShapeGuardError(RuntimeError):
    """A call violates a guard on shapes that `evaluate_guards` keeps."""


def kept_guards(entries: Sequence[Any], *, evaluate: bool) -> list[bool]:
    """For torch's guard filter: which guards stay. None, or with `evaluate` those on shapes."""
    return [evaluate and entry.guard_type == "SHAPE_ENV" for entry in entries]


def guard_check(
    compiled: Any, function: Callable[..., Any], *, evaluate: bool, known: GuardRecord, loaded: bool
) -> Callable[..., None] | None:
    """What a call does before it runs: nothing, unless guards are evaluated or a run is recorded.

    A recorded run's hooks audit dropped guards from within torch's own check of the (empty) guards
    that were left, so that check has to be made. Those that torch does not have are audited from
    data: all of a model that was `loaded`, else those that compiling the pieces added.
    """
    recorded = probe.active()
    if not evaluate and not recorded:
        return None
    manager = compiled._artifacts.guard_manager
    locals_of = _locals_of(compiled, inspect.signature(function))
    added = [condition for condition in known.conditions if condition.layer != "dynamo"]
    from_data = known if loaded else GuardRecord(added)
    audit = None
    if recorded and probe.audit() != "off" and (loaded or added):
        audit = DataAudit(
            from_data,
            function.__code__,
            function.__globals__,
            compile_id=LOADED if loaded else PIECES,
            every_call=probe.audit() == "all",
        )
    strict = Checker(added if evaluate else (), function.__globals__)

    def check(*args: Any, **kwargs: Any) -> None:
        found = locals_of(args, kwargs)
        if audit is not None:
            audit(found)
        if not manager.check(found) and evaluate:
            raise ShapeGuardError(_explained(manager, found))
        for violation in strict.violations(found):
            raise ShapeGuardError(_told(violation))

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


def _told(violation: Violation) -> str:
    condition = violation.condition
    return (
        f"this call violates what a piece was compiled for by {condition.layer}: {condition.spoken}, "
        f"and {violation.seen}"
    )


def _explained(manager: Any, found: dict[str, Any]) -> str:
    """The guard that failed, with the user's line as torch notes it."""
    parts = getattr(manager.check_verbose(found), "verbose_code_parts", None) or ["a guard on shapes"]
    return "this call violates what the model was compiled for: " + "; ".join(map(str, parts))
