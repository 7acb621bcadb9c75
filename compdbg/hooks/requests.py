"""What was asked to be compiled: `torch.compile`, `nn.Module.compile`, and what switches them off.

Nothing here stands in the way of an exception: `check_for_incompatible_configs` is called once
in every `torch.compile` and returns, and the caller's frames hold all that was asked. So a
traceback reads as it does without us, and Dynamo never traces a wrapper of ours.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Callable
from types import FrameType
from typing import Any

from compdbg import probe
from compdbg.events import CompileError, CompileRequest, NotCompiled, Stance
from compdbg.hooks import userline
from compdbg.hooks.base import Hook, Part, Patches, Target, contained
from compdbg.hooks.requested import Asked, asked_of

CHECK = Target("torch._dynamo.eval_frame:check_for_incompatible_configs")
FROM_STANCE = Target("torch._dynamo.eval_frame:_callback_from_stance", ("callback",))
WRAPPER = Target("torch._dynamo.convert_frame:CatchErrorsWrapper.__init__", ("callback", "hooks"))
SET_STANCE = Target("torch._dynamo.decorators:_set_stance", ("stance",))
INVALID = Target("torch._dynamo.exc:InvalidBackend.__init__", ("name",))

_KEPT_OPTIONS = 64
_pending = threading.local()
_wrappers: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
_targets: dict[str, str] = {}
_filtered: list[tuple[dict[str, Any], str]] = []
"""Options from which torch took a guard filter, with the request. The filter itself is not held."""
_count = 0


def request_of(wrapper: Any) -> str:
    """The request whose frames this `CatchErrorsWrapper` converts; empty where it is not known."""
    try:
        return _wrappers.get(wrapper, "")
    except TypeError:
        return ""


def is_target(request: str, frame: str) -> bool:
    """Whether `frame` is the very one that `request` asked for, not one that it calls."""
    return bool(request) and _targets.get(request) == frame


def _install_eval_frame(patches: Patches) -> None:
    patches.wrap(CHECK, _observe_request)
    patches.on_undo(_filtered.clear)
    patches.on_undo(_targets.clear)
    _watch_stance_now(patches)


def _observe_request(original: Callable[[], None]) -> Callable[[], None]:
    def check_for_incompatible_configs() -> None:
        original()
        if probe.active():
            with contained("requests"):
                _record_request(sys._getframe(1))

    return check_for_incompatible_configs


def _record_request(optimize: FrameType) -> None:
    global _count
    asked = asked_of(optimize)
    if asked is None:
        return
    _count += 1
    request = f"{os.getpid()}.{_count}"
    taken_by = _filter_taken_by(asked)
    if asked.has_filter and isinstance(asked.options, dict):
        del _filtered[: len(_filtered) - _KEPT_OPTIONS + 1]
        _filtered.append((asked.options, request))
    disabled_by = _disabled_by(asked)
    _targets[request] = asked.code
    probe.emit(
        CompileRequest(
            target=asked.target,
            where=asked.where,
            target_where=asked.target_where,
            request=request,
            code=asked.code,
            internal=asked.internal,
            backend=asked.backend,
            mode=asked.mode,
            fullgraph=asked.fullgraph,
            dynamic=asked.dynamic,
            drops_guards=asked.has_filter,
            lost_guard_filter=taken_by is not None,
            filter_taken_by=taken_by,
            disabled_by=disabled_by,
        )
    )
    _pending.request = None if disabled_by else request


def _filter_taken_by(asked: Asked) -> str | None:
    if asked.has_filter or not isinstance(asked.options, dict):
        return None
    return next((request for options, request in _filtered if options is asked.options), None)


def _disabled_by(asked: Asked) -> str | None:
    if asked.disable:
        return "disable=True"
    return "TORCHDYNAMO_DISABLE=1" if os.environ.get("TORCHDYNAMO_DISABLE") == "1" else None


def _install_convert_frame(patches: Patches) -> None:
    def name_wrapper(original: Callable[..., None]) -> Callable[..., None]:
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **kwargs)
            request = _pending.__dict__.pop("request", None)
            if request is not None:
                _wrappers[self] = request

        return __init__

    patches.wrap(WRAPPER, name_wrapper)


class _StanceWatch:
    """Stands in for `_callback_from_stance` only while a stance keeps calls eager: no cost otherwise."""

    def __init__(self, eval_frame: Any) -> None:
        self.eval_frame = eval_frame
        self.original: Callable[[Any], Any] | None = None
        self.seen: set[tuple[str, str]] = set()

    def follow(self, stance: str) -> None:
        if stance in ("force_eager", "eager_on_recompile"):
            self.on()
        else:
            self.off()

    def on(self) -> None:
        if self.original is not None:
            return
        original = self.original = self.eval_frame._callback_from_stance

        def _callback_from_stance(callback: Any) -> Any:
            result = original(callback)
            if result is not callback and callable(callback) and not callable(result) and probe.active():
                with contained("requests"):
                    self.record(callback)
            return result

        self.eval_frame._callback_from_stance = _callback_from_stance

    def off(self) -> None:
        if self.original is not None:
            self.eval_frame._callback_from_stance = self.original
            self.original = None

    def record(self, callback: Any) -> None:
        stance = str(self.eval_frame._stance.stance)
        request = request_of(callback)
        if (request, stance) not in self.seen:
            self.seen.add((request, stance))
            where = userline.of_caller()
            probe.emit(NotCompiled(request=request, reason=f"stance {stance}", where=where))


_watch: _StanceWatch | None = None


def _watch_stance_now(patches: Patches) -> None:
    global _watch
    eval_frame = sys.modules["torch._dynamo.eval_frame"]
    if not hasattr(eval_frame, "_callback_from_stance") or not hasattr(eval_frame, "_stance"):
        patches.missing.append(f"{FROM_STANCE.path}: not here (seen in torch {FROM_STANCE.seen})")
        return
    _watch = _StanceWatch(eval_frame)
    patches.on_undo(_watch.off)
    stance = str(eval_frame._stance.stance)
    if stance != "default":
        probe.emit(Stance(stance=stance))
        _watch.follow(stance)


def _install_decorators(patches: Patches) -> None:
    def observe(original: Callable[..., Any]) -> Callable[..., Any]:
        def _set_stance(stance: Any) -> Any:
            prior = original(stance)
            with contained("requests"):
                name = str(getattr(stance, "stance", stance))
                if name != str(getattr(prior, "stance", prior)):
                    probe.emit(Stance(stance=name, where=userline.of_caller()))
                if _watch is not None:
                    _watch.follow(name)
            return prior

        return _set_stance

    patches.wrap(SET_STANCE, observe)


def _install_exceptions(patches: Patches) -> None:
    def observe(original: Callable[..., None]) -> Callable[..., None]:
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **kwargs)
            with contained("requests"):
                probe.emit(
                    CompileError(
                        frame="",
                        compile_id="",
                        stage="backend",
                        error=type(self).__name__,
                        message=str(self),
                        root_error=type(self).__name__,
                        root_message=str(self),
                        where=userline.of_caller(),
                        backend=str(args[0] if args else kwargs.get("name", "")),
                    )
                )

        return __init__

    patches.wrap(INVALID, observe)


HOOK = Hook(
    "requests",
    (
        Part("torch._dynamo.exc", _install_exceptions),
        Part("torch._dynamo.convert_frame", _install_convert_frame),
        Part("torch._dynamo.eval_frame", _install_eval_frame),
        Part("torch._dynamo.decorators", _install_decorators),
    ),
    (CHECK, FROM_STANCE, WRAPPER, SET_STANCE, INVALID),
    proof=(CompileRequest,),
)
