"""Guards on the state of the process: grad mode, autocast, default dtype and device, thread count."""

from __future__ import annotations

import json
import sys
from typing import Any

from compdbg.hooks.audit_judgement import Case, Judgement
from compdbg.hooks.audit_state import changed_tokens
from compdbg.hooks.audit_watches import StateWatch

_NO_EFFECT = {
    "num_threads": "the number of threads changes how fast a result comes, not the result",
    "allow_tf32": "it changes the precision of matrix products, within what it allows",
    "allow_fp16_reduce": "it changes the precision of matrix products, within what it allows",
    "allow_bf16_reduce": "it changes the precision of matrix products, within what it allows",
    "deterministic_algorithms": "it chooses between algorithms for one result",
    "deterministic_algorithms_warn_only": "it chooses whether torch warns",
    "autocast_cache_enabled": "the cache of casts changes no result",
}
_DTYPES = {5: "torch.float16", 6: "torch.float32", 7: "torch.float64", 15: "torch.bfloat16"}
"""torch's numbers of dtypes."""
_READ = "the program asked for it while it was traced, and what it did then is frozen"
_BY_OPS = "this backend calls torch's ops, which see the present state"


def judge_state(case: Case) -> list[Judgement]:
    watch = case.watch
    assert isinstance(watch, StateWatch)
    if watch.leaf == "GLOBAL_STATE":
        wanted, now = _state_of(watch.guard), _state_now()
        return [_token(case, token, wanted, now) for token in changed_tokens(watch.guard)]
    return [_OTHERS.get(watch.leaf, _unknown_state)(case)]


def _token(case: Case, token: str, wanted: dict[str, Any], now: dict[str, Any]) -> Judgement:
    part = "autocast" if token.startswith("autocast") else token
    where = case.facts.reads.get(("state", part))
    effect, why = ("differs", _READ) if where is not None else _token_effect(case, token, wanted)
    key = "autocast_state" if token.startswith("autocast") else token
    return Judgement(
        kind="global-state",
        effect=effect,
        why=why,
        name=token,
        wanted=_text(key, wanted.get(key)),
        seen=_text(key, now.get(key)),
        where=where,
        facet=part,
        groups=(("state", key),),
    )


def _token_effect(case: Case, token: str, wanted: dict[str, Any]) -> tuple[str, str]:
    facts = case.facts
    if token in _NO_EFFECT:
        return "same", _NO_EFFECT[token]
    if facts.style == "ops":
        return "same", _BY_OPS
    if token == "grad_mode":
        return _grad_mode(case, bool(wanted.get("grad_mode")))
    depends, if_so, if_not = {
        "autocast": (facts.autocast, "the casts of autocast are part of the trace", "that autocast casts"),
        "default": (facts.default_dtype, "the graph makes tensors of the trace's default dtype",
                    "whose dtype is the default"),
    }.get(token.partition("_")[0].partition("(")[0], (None, "what it does is not known", ""))  # fmt: skip
    if depends is False:
        return "same", f"the graph has no op {if_not}"
    return "differs" if depends else "unknown", if_so


def _grad_mode(case: Case, traced_with_grad: bool) -> tuple[str, str]:
    torch = sys.modules["torch"]
    if not traced_with_grad:
        wants = any(expected.requires_grad for expected in case.expected.values())
        if wants:
            return "differs", "traced without gradients, the compiled code has no backward"
        return "same", "no input of the graph asks for gradients"
    if torch.is_inference_mode_enabled() and case.facts.training and _given_inference_tensors(case):
        return (
            "differs",
            "the compiled code saves inputs for a backward, and inference tensors can't be saved",
        )
    return "same", "the result without gradients is the same"


def _given_inference_tensors(case: Case) -> bool:
    """Whether a tensor of this call was made in inference mode."""
    for source in case.expected:
        try:
            value = eval(source, case.scope)
        except Exception:
            continue
        if getattr(value, "is_inference", bool)():
            return True
    return False


def _state_of(guard: Any) -> dict[str, Any]:
    parts = guard.verbose_code_parts()
    return _parse(parts[0] if parts else "")


def _state_now() -> dict[str, Any]:
    return _parse(sys.modules["torch"]._C._dynamo.guards.GlobalStateGuard().__getstate__())


def _parse(text: str) -> dict[str, Any]:
    try:
        state = json.loads(text[text.index("{") : text.rindex("}") + 1])
    except ValueError:
        return {}
    return state if isinstance(state, dict) else {}


def _text(key: str, value: Any) -> str:
    if isinstance(value, dict):
        return "on" if any(value.get("enabled") or ()) else "off"
    if key == "default_dtype":
        return _DTYPES.get(value, str(value))
    return "" if value is None else str(value)


def _function_modes(case: Case) -> Judgement:
    """A mode that was not there while tracing sees none of the compiled ops; a device only makes tensors."""
    torch = sys.modules["torch"]
    count = torch._C._len_torch_function_stack()
    names = [type(torch._C._get_function_stack_at(i)).__name__ for i in range(count)]
    seen = ", ".join(names) or "no mode"
    if case.facts.style == "ops":
        return _state(case, "same", _BY_OPS, "torch function modes", "those of the trace", seen)
    if set(names) <= {"DeviceContext"}:
        return _device(case)
    why = "a torch function mode sees the ops of eager code, and none of the compiled code's"
    return _state(case, "unknown", why, "torch function modes", "those of the trace", seen)


def _device(case: Case) -> Judgement:
    torch = sys.modules["torch"]
    seen = str(torch.get_default_device())
    if case.facts.style == "ops":
        effect, why = "same", _BY_OPS
    elif case.facts.makes_tensors:
        effect, why = "differs", "the graph makes tensors on what was the default device of the trace"
    else:
        effect, why = "same", "the graph makes no tensor on the default device"
    return _state(case, effect, why, "default device", "that of the trace", seen)


def _unknown_state(case: Case) -> Judgement:
    name = case.watch.record.type.lower() if case.watch.record is not None else case.watch.leaf.lower()
    why = "the call is made inside another transform or context than the trace"
    return _state(case, "unknown", why, name, "as traced", "changed")


def _state(case: Case, effect: str, why: str, name: str, wanted: str, seen: str) -> Judgement:
    return Judgement("global-state", effect, why, name, wanted, seen, None, "", (("state", name),))


_OTHERS = {
    "TORCH_FUNCTION_MODE_STACK": _function_modes,
    "DEFAULT_DEVICE": _device,
}
