"""torch's own CUDA graphs, `mode="reduce-overhead"`: graphs that run without one, and recordings.

torch skips CUDA graphs only where they were asked for, so each skip is worth an event. A second
recording of the same function has a reason: an input at another address, a changed path.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

from compdbg import probe
from compdbg.events import CudagraphRecord, CudagraphSkip
from compdbg.hooks.base import Hook, Part, Patches, Target, contained
from compdbg.hooks.current import compile_id, graph_name, plain_id
from compdbg.hooks.userline import of_text

NAME = "cudagraphs"
_TREES = "torch._inductor.cudagraph_trees:"
SKIP = Target("torch._inductor.cudagraph_utils:log_cudagraph_skip_and_bump_counter", ("msg",))
RECORD = Target(_TREES + "CUDAGraphTreeManager.record_function", ("function_id",))
CHECK = Target(_TREES + "CUDAGraphNode.check_invariants", ("inputs",))

_here = threading.local()
_recorded: Counter[tuple[int, Any]] = Counter()


def _around_skip(original: Callable[..., Any]) -> Callable[..., Any]:
    def log_cudagraph_skip(msg: str) -> Any:
        if probe.active():
            with contained(NAME):
                name = graph_name()
                event = CudagraphSkip(
                    reason=_reason(str(msg)),
                    graph=None if name == "?" else name,
                    compile_id=compile_id(),
                    where=of_text(str(msg)),
                )
                probe.emit(event)
        return original(msg)

    return log_cudagraph_skip


def _reason(message: str) -> str:
    """torch's reason alone; it names the skipping itself once or twice, and ends with a stack."""
    first = message.split(" Found from", 1)[0].split("\n", 1)[0]
    return first.replace("skipping cudagraphs due to ", "").strip().rstrip(".")


def _around_check(original: Callable[..., Any]) -> Callable[..., Any]:
    def check_invariants(self: Any, inputs: Any) -> Any:
        found = original(self, inputs)
        if getattr(found[0], "value", 1) != 1:
            _here.mismatch = found[1]
        return found

    return check_invariants


def _around_record(original: Callable[..., Any]) -> Callable[..., Any]:
    def record_function(self: Any, new_inputs: Any, function_id: Any) -> Any:
        if probe.active():
            with contained(NAME):
                _record(self, function_id)
        return original(self, new_inputs, function_id)

    return record_function


def _record(manager: Any, function_id: Any) -> None:
    key = (id(manager), function_id)
    _recorded[key] += 1
    mismatch = _here.__dict__.pop("mismatch", None)
    reason = ""
    if _recorded[key] > 1:
        reason = str(mismatch()) if callable(mismatch) else "a path of calls that was not recorded before"
    known = getattr(manager, "compile_id", None)
    event = CudagraphRecord(
        graph=f"function {getattr(function_id, 'id', function_id)}",
        rerecord_reason=reason,
        compile_id=plain_id(known) if known is not None else compile_id(),
    )
    probe.emit(event)


def _install_skips(patches: Patches) -> None:
    patches.wrap_bound(SKIP, _around_skip)


def _install_trees(patches: Patches) -> None:
    patches.wrap(RECORD, _around_record)
    patches.wrap(CHECK, _around_check)


HOOK = Hook(
    NAME,
    (
        Part("torch._inductor.cudagraph_utils", _install_skips),
        Part("torch._inductor.cudagraph_trees", _install_trees),
    ),
    (SKIP, RECORD, CHECK),
    proof=(CudagraphSkip, CudagraphRecord),
)
