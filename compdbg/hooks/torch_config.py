"""Values of torch's configuration that the program set, and what they are when something is compiled.

`torch._inductor.config.X = v` is kept in a context variable: another thread does not see it. A patch
ends with its block, and `torch.compile` compiles at the first call. A library may set another value,
and some environment variables win over any.
"""

from __future__ import annotations

import sys
import threading
from types import FrameType
from typing import Any, NamedTuple

from compdbg import probe
from compdbg.events import ConfigValue, Where
from compdbg.hooks import compiling
from compdbg.hooks.base import Hook, Part, Patches, Target, contained
from compdbg.hooks.userline import is_our_file, is_stdlib_file, is_torch_file, is_user_file

NAME = "torch_config"
_SET = Target("torch.utils._config_module:ConfigModule.__setattr__", ("name", "value"))
_COMPILE = Target("torch._dynamo.output_graph:OutputGraph.call_user_compiler")
_REQUEST = Target("torch._dynamo.eval_frame:check_for_incompatible_configs")
MODULES = ("torch._inductor.config", "torch._dynamo.config", "torch._functorch.config")
REQUESTS = 256
"""Requests made inside a patch that are remembered until they are compiled."""
_HERE = "_config_module.py"


class Ask(NamedTuple):
    """A value that the program set: where, on which thread, and by a patch or for good."""

    value: str
    where: Where
    thread: str
    patch: bool


class Key(NamedTuple):
    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


_asked: dict[Key, list[Ask]] = {}
"""What is asked for now; patches stand above what they cover."""
_changed: dict[Key, tuple[str, str]] = {}
"""What a library set instead, and the line that did."""
_requests: dict[str, dict[Key, Ask]] = {}
"""Frame -> what patches asked for when `torch.compile` was called on it."""
_told: set[tuple[str, str, str, str]] = set()


def _setting(original: Any) -> Any:
    def __setattr__(self: Any, name: str, value: object) -> None:
        original(self, name, value)
        if probe.active() and self.__name__ in MODULES:
            caller = sys._getframe(1)
            while is_our_file(caller.f_code.co_filename) and caller.f_back is not None:
                caller = caller.f_back  # another hook that watches the same function
            if caller.f_code.co_filename.endswith(_HERE) or not is_torch_file(caller.f_code.co_filename):
                with contained(NAME):
                    _note(Key(self.__name__, name), value, caller)

    return __setattr__


def _note(key: Key, value: object, caller: FrameType) -> None:
    """Who set a value: the program, a library, or torch itself, whose settings are its own business."""
    step = caller.f_code.co_name if caller.f_code.co_filename.endswith(_HERE) else ""
    setter = _setter(caller)
    text = _text(value)
    if setter is None or text is None:
        return
    where = Where(setter.f_code.co_filename, setter.f_lineno, setter.f_code.co_name)
    if not is_user_file(where.file):
        if step != "__exit__" and key in _asked:
            _changed[key] = text, f"{where.function} ({_short(where.file)}:{where.line})"
        return
    asks = _asked.setdefault(key, [])
    here = threading.current_thread().name
    if step == "__exit__":
        ended = next((ask for ask in reversed(asks) if ask.patch and ask.thread == here), None)
        if ended is not None:
            asks.remove(ended)
        return
    _changed.pop(key, None)
    if step != "__enter__" and asks:
        asks.pop()
    asks.append(Ask(text, where, here, step == "__enter__"))


def _setter(frame: FrameType | None) -> FrameType | None:
    """The nearest frame past torch's configuration and the standard library; None where torch's own."""
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.endswith(_HERE) and not is_stdlib_file(name):
            return None if is_torch_file(name) else frame
        frame = frame.f_back
    return None


def _text(value: object) -> str | None:
    """A plain value as text; None for what can't be compared by it."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return str(value)[:200]
    if isinstance(value, (list, tuple)) and all(isinstance(v, (bool, int, float, str)) for v in value):
        return str(list(value))[:400]
    return None


def _requesting(original: Any) -> Any:
    def check_for_incompatible_configs() -> None:
        original()
        if probe.active() and _asked:
            with contained(NAME):
                _note_request(sys._getframe(1))

    return check_for_incompatible_configs


def _note_request(optimize: FrameType) -> None:
    from compdbg.hooks.requested import asked_of

    patched = {key: ask for key, ask in _standing().items() if ask.patch}
    request = asked_of(optimize) if patched else None
    if request is None or not request.code:
        return
    _requests[request.code] = patched
    while len(_requests) > REQUESTS:
        _requests.pop(next(iter(_requests)), None)


def _standing() -> dict[Key, Ask]:
    """What is asked for now: by this thread, which has settings of its own, or else by another.

    Others may set values or end patches meanwhile, so lists are read once.
    """
    here = threading.current_thread().name
    found = {}
    for key, asks in list(_asked.items()):
        standing = list(asks)
        if standing:
            found[key] = next((ask for ask in reversed(standing) if ask.thread == here), standing[-1])
    return found


def _compiling(original: Any) -> Any:
    def call_user_compiler(self: Any, *args: Any, **kwargs: Any) -> Any:
        if probe.active() and (_asked or _requests):
            with contained(NAME):
                _tell(_options_of(getattr(self, "compiler_fn", None)))
        return original(self, *args, **kwargs)

    return call_user_compiler


def _tell(options: dict[str, Any]) -> None:
    """Each value that was asked for, as this compile finds it."""
    under_way = compiling.top()
    frame = under_way.frame if under_way is not None else ""
    now = _standing()
    for key, ask in {**_requests.pop(frame, {}), **now}.items():
        effective = _text(getattr(sys.modules[key.module], key.name, None))
        if effective is None or (key.module.endswith("inductor.config") and key.name in options):
            continue
        changed_by, why = ("", "") if effective == ask.value else _reason(key, ask, effective, key in now)
        if effective != ask.value and not changed_by:
            continue  # torch's own patch for the time of a compile
        said = str(key), ask.value, effective, changed_by
        if said not in _told:
            _told.add(said)
            probe.emit(
                ConfigValue(
                    key=str(key),
                    requested=ask.value,
                    effective=effective,
                    changed_by=changed_by,
                    why=why,
                    asked=True,
                    where=ask.where,
                )
            )


def _reason(key: Key, ask: Ask, effective: str, stands: bool) -> tuple[str, str]:
    """Who made the difference, and why."""
    line = f"{_short(ask.where.file)}:{ask.where.line}"
    if _changed.get(key, ("",))[0] == effective:
        return _changed[key][1], f"it set {key.name} after {line} did"
    variable = _forced_by(key)
    if variable:
        return f"the environment variable {variable}", "it wins over what the program sets"
    if not stands:
        return f"the end of the patch at {line}", "torch.compile compiles at the first call, after that block"
    here = threading.current_thread().name
    if ask.thread != here:
        why = f"set on {ask.thread}, compiled on {here}: each thread has settings of its own"
        return f"the thread {here}", why
    return "", ""


def _forced_by(key: Key) -> str:
    entry = getattr(sys.modules[key.module], "_config", {}).get(key.name)
    forced = getattr(entry, "env_value_force", None)
    if forced is None or _text(forced) is None:
        return ""
    names = getattr(entry, "env_name_force", None)
    return names if isinstance(names, str) else " or ".join(names or ()) or "that forces it"


def _options_of(compiler: Any) -> dict[str, Any]:
    inner = getattr(compiler, "_torchdynamo_orig_backend", None) or compiler
    options = getattr(inner, "config", None)
    return options if isinstance(options, dict) else {}


def _short(file: str) -> str:
    return file.rpartition("site-packages/")[2] if "site-packages/" in file else file.rpartition("/")[2]


def _install_config(patches: Patches) -> None:
    patches.wrap(_SET, _setting)
    for kept in (_asked, _changed, _requests, _told):
        patches.on_undo(kept.clear)


def _install_requests(patches: Patches) -> None:
    patches.wrap(_REQUEST, _requesting)


def _install_compile(patches: Patches) -> None:
    patches.wrap(_COMPILE, _compiling)


probe.at_fork(_told.clear)

HOOK = Hook(
    NAME,
    (
        Part("torch", _install_config),
        Part("torch._dynamo.eval_frame", _install_requests),
        Part("torch._dynamo.output_graph", _install_compile),
    ),
    (_SET, _COMPILE, _REQUEST),
)
