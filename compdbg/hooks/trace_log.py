"""What torch tells only its structured trace (`TORCH_TRACE`), of the kinds that no other event has.

A handler on `torch.__trace` would make torch work out every payload, most of which other hooks
have already (graphs, code, guards) or nobody reads (descriptions of tensors). So the function
that writes a record is wrapped, and asks for the few payloads that are wanted.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from compdbg import probe
from compdbg.events import TraceArtifact
from compdbg.hooks.base import Hook, Part, Patches, Target, contained
from compdbg.hooks.current import compile_id as current_compile_id
from compdbg.hooks.current import plain_id
from compdbg.record import options

NAME = "trace_log"
TRACE = Target("torch._logging._internal:trace_structured", ("name", "metadata_fn", "payload_fn"))

KINDS = frozenset(
    ("bwd_compilation_metrics", "compilation_metrics", "compiled_autograd_graph", "create_unbacked_symbol",
     "guard_on_data_dependent_error", "link", "mismatched_fake_kernel", "missing_fake_kernel",
     "optimize_ddp_split_child", "optimize_ddp_split_graph", "propagate_real_tensors")
)  # fmt: skip
ARTIFACTS = frozenset(
    ("aotautograd_cache_pickle_failure", "compiled_autograd_compile_reasons", "compiler_collective",
     "dynamo_cache_bypass", "dynamo_cache_exception", "dynamo_side_effects",
     "eager_compile_backwards_failure", "inductor_collective_schedule", "make_fx_fail_partial",
     "min_cut_failed_edge_list", "precompile_cache_bypass", "triton_kernel_info")
)  # fmt: skip
CODE = frozenset(
    (
        "compiled_autograd_graph",
        "make_fx_fail_partial",
        "optimize_ddp_split_child",
        "optimize_ddp_split_graph",
    )
)
"""Those that hold the program's code: left out where no source is to be recorded."""
PROFILE = "_code_state"
"""Profile-guided dynamism: what it loaded and stored; the artifact's name names the key."""


def _around_trace(original: Callable[..., Any]) -> Callable[..., Any]:
    def trace_structured(name: str, metadata_fn: Any = dict, **more: Any) -> Any:
        if (name in KINDS or name == "artifact") and probe.active():
            with contained(NAME):
                _record(name, metadata_fn, more.get("payload_fn"), more.get("compile_id"))
        return original(name, metadata_fn, **more)

    return trace_structured


def _record(name: str, metadata_fn: Any, payload_fn: Any, compile_id: Any) -> None:
    metadata = metadata_fn()
    if name == "artifact":
        artifact = str(metadata.get("name", ""))
        if artifact not in ARTIFACTS and not artifact.endswith(PROFILE):
            return
        name = artifact
    if name in CODE and not options.current().source:
        return
    payload = payload_fn() if payload_fn is not None else None
    text = payload if isinstance(payload, str) else _as_json(metadata if payload is None else payload)
    event = TraceArtifact(
        name=name,
        text=probe.payload(text),
        encoding="json" if not isinstance(payload, str) else str(metadata.get("encoding", "string")),
        compile_id=current_compile_id() if compile_id is None else plain_id(compile_id),
    )
    probe.emit(event)


def _as_json(value: Any) -> str:
    return json.dumps(value, default=str)


def _install(patches: Patches) -> None:
    patches.wrap_bound(TRACE, _around_trace)


HOOK = Hook(NAME, (Part("torch", _install),), (TRACE,))
