"""Which custom passes Inductor's configuration enables, and whether Inductor came to call them."""

from __future__ import annotations

import os
import sys
import threading
from types import FrameType
from typing import Any

from compdbg import probe
from compdbg.events import FusionCalled, FusionCompile, FusionEnabled, LinkedPass
from compdbg.hooks import current
from compdbg.hooks.base import Hook, Part, Patches, Target, contained
from compdbg.hooks.fusion_links import key_of, linked_passes, name_of, without_partial
from compdbg.hooks.pattern_matcher_owner import held_by, owner_of
from compdbg.hooks.pattern_matcher_passes import info_of, registered_in_torchs_passes
from compdbg.hooks.userline import is_our_file, is_stdlib_file, is_user_file, of_caller

NAME = "fusion_config"
SLOTS = (
    "pre_grad_custom_pass",
    "joint_custom_pre_pass",
    "joint_custom_post_pass",
    "post_grad_custom_pre_pass",
    "post_grad_custom_post_pass",
)
_CONFIG = "torch._inductor.config"
_SET = Target("torch.utils._config_module:ConfigModule.__setattr__", ("name", "value"))
_COMPILE = Target("torch._dynamo.output_graph:OutputGraph.call_user_compiler")
_OBSERVER = "torch.fx.passes.graph_transform_observer"
_CALL = Target(f"{_OBSERVER}:GraphTransformObserver.apply_graph_pass", ("pass_fn",))
_DISABLED = Target(f"{_OBSERVER}:GraphTransformObserver._check_disable_pass")

_here = threading.local()
_told: set[tuple[int, str, str, str | None]] = set()


def _passes(value: Any) -> tuple[Any, ...]:
    """The callables of a slot: none, one, or a list of them."""
    if value is None:
        return ()
    return tuple(value) if isinstance(value, (list, tuple)) else (value,)


def _setting(original: Any) -> Any:
    def __setattr__(self: Any, name: str, value: object) -> None:
        original(self, name, value)
        if name in SLOTS and value is not None and probe.active():
            with contained(NAME):
                by_user = _set_by_user(sys._getframe(1))
                for custom_pass in _passes(value):
                    _tell_enabled(name, custom_pass, by_user, depth=3)

    return __setattr__


def _set_by_user(frame: FrameType | None) -> bool:
    """Whether the nearest code past configuration, other hooks and the standard library is the user's own."""
    while frame is not None:
        name = frame.f_code.co_filename
        if is_user_file(name):
            return True
        if not (name.endswith("_config_module.py") or is_our_file(name) or is_stdlib_file(name)):
            return False
        frame = frame.f_back
    return False


def _tell_enabled(slot: str, custom_pass: Any, by_user: bool, depth: int) -> str:
    key = key_of(custom_pass)
    compile_id = current.compile_id()
    said = (os.getpid(), key, slot, compile_id)
    if said not in _told:
        _told.add(said)
        probe.emit(
            FusionEnabled(
                slot=slot,
                key=key,
                name=name_of(custom_pass),
                passes=_linked(custom_pass),
                where=of_caller(depth),
                by_user=by_user,
                compile_id=compile_id,
            )
        )
    return key


def _linked(custom_pass: Any) -> list[LinkedPass]:
    kind = getattr(sys.modules.get("torch._inductor.pattern_matcher"), "PatternMatcherPass", None)
    found = []
    for matcher_pass, holder in linked_passes(without_partial(custom_pass), kind) if kind is not None else []:
        held_by(matcher_pass, holder)
        info = info_of(matcher_pass)
        name, aliases = info.names(owner_of(matcher_pass, info.maker, None))
        found.append(LinkedPass(pass_id=info.id, name=name, aliases=aliases, where=info.where))
    return found


def _compiling(original: Any) -> Any:
    def call_user_compiler(self: Any, *args: Any, **kwargs: Any) -> Any:
        if probe.active():
            with contained(NAME):
                _tell_compile(getattr(self, "compiler_fn", None))
        return original(self, *args, **kwargs)

    return call_user_compiler


def _tell_compile(compiler: Any) -> None:
    config: Any = sys.modules.get(_CONFIG)
    if config is None:
        return
    inner = getattr(compiler, "_torchdynamo_orig_backend", None) or compiler
    options = getattr(inner, "config", None)
    options = options if isinstance(options, dict) else {}
    values = {slot: options.get(slot, getattr(config, slot, None)) for slot in SLOTS}
    enabled = [_tell_enabled(s, p, False, depth=4) for s, value in values.items() for p in _passes(value)]
    if not enabled and not _told and not registered_in_torchs_passes():
        return
    probe.emit(
        FusionCompile(
            compile_id=current.compile_id(),
            backend=_backend_name(compiler),
            enabled=enabled,
            pattern_matcher=bool(options.get("pattern_matcher", getattr(config, "pattern_matcher", True))),
            disabled_passes=str(options.get("disabled_passes", getattr(config, "disabled_passes", ""))),
            elsewhere=_compiles_elsewhere(),
        )
    )


def _backend_name(compiler: Any) -> str:
    for name in ("compiler_name", "_compiler_name", "__name__"):
        found = getattr(compiler, name, None)
        if isinstance(found, str):
            return found
    return type(compiler).__name__


def _compiles_elsewhere() -> bool:
    mode = getattr(sys.modules.get("torch._inductor.compile_fx"), "fx_compile_mode", None)
    return getattr(mode, "name", "NORMAL") not in ("NORMAL",)


def _calling(original: Any) -> Any:
    def apply_graph_pass(self: Any, pass_fn: Any) -> Any:
        if getattr(self, "passname", None) not in SLOTS or not probe.active():
            return original(self, pass_fn)
        before, _here.disabled = getattr(_here, "disabled", None), False
        try:
            return original(self, pass_fn)
        finally:
            disabled, _here.disabled = _here.disabled, before
            with contained(NAME):
                _tell_called(self.passname, pass_fn, disabled)

    return apply_graph_pass


def _tell_called(slot: str, pass_fn: Any, disabled: bool) -> None:
    if getattr(without_partial(pass_fn), "__module__", "").startswith("torch."):
        return
    config: Any = sys.modules.get(_CONFIG)
    setting = str(getattr(config, "disabled_passes", "") or "")
    by = (f"config.disabled_passes={setting!r}" if setting else "the compiler bisector") if disabled else None
    probe.emit(
        FusionCalled(
            slot=slot,
            key=key_of(pass_fn),
            graph=current.graph_name(),
            disabled_by=by,
            compile_id=current.compile_id(),
        )
    )


def _disabling(original: Any) -> Any:
    def _check_disable_pass(self: Any) -> Any:
        result = original(self)
        if result:
            _here.disabled = True
        return result

    return _check_disable_pass


def _install_config(patches: Patches) -> None:
    patches.wrap(_SET, _setting)
    patches.on_undo(_told.clear)
    config = sys.modules[_CONFIG]
    for slot in SLOTS:
        for custom_pass in _passes(getattr(config, slot, None)):
            _tell_enabled(slot, custom_pass, True, depth=4)


def _install_compile(patches: Patches) -> None:
    patches.wrap(_COMPILE, _compiling)


def _install_observer(patches: Patches) -> None:
    patches.wrap(_CALL, _calling)
    patches.wrap(_DISABLED, _disabling)


HOOK = Hook(
    NAME,
    (
        Part(_CONFIG, _install_config),
        Part("torch._dynamo.output_graph", _install_compile),
        Part(_OBSERVER, _install_observer),
    ),
    (_SET, _COMPILE, _CALL, _DISABLED),
    proof=(FusionCalled, FusionCompile),
)
