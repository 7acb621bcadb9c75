"""vLLM's compilation configuration: what was asked for, what is in effect, and which line changed it.

vLLM resolves its configuration by assignments, spread over the post-init of three classes, the
platform and the model runner. Each assignment that changes a field is noted with its line; what is
left of them when a `VllmConfig` is complete, and every later one, is recorded.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
import os
import sys
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NamedTuple

from compdbg import probe
from compdbg.events import ConfigValue
from compdbg.hooks.base import Patches, TargetMissing, contained, resolve
from compdbg.hooks.vllm_targets import CONFIG_CLASSES, CONFIG_MADE

HOOK = "vllm"

BOOKKEEPING = frozenset({"cache_dir", "local_cache_dir", "debug_dump_path"})
"""Folders that vLLM works out: no one's choice, and nobody's business."""
NESTED = frozenset({"pass_config", "dynamic_shapes_config"})


class _Change(NamedTuple):
    before: Any
    by: str


class _Watched:
    """One configuration object: the changes to it so far, and whether it is complete."""

    def __init__(self, config: Any) -> None:
        self.alive = weakref.ref(config)
        self.prefix = _prefix_of(config)
        self.fields = {f.name for f in dataclasses.fields(config) if f.init} - BOOKKEEPING - NESTED
        self.changes: dict[str, _Change] = {}
        self.complete = False


_watched: dict[int, _Watched] = {}


def install_fields(patches: Patches) -> None:
    for target in CONFIG_CLASSES:
        try:
            cls = resolve(target)[2]
        except TargetMissing as missing:
            patches.missing.append(str(missing))
            continue
        if dataclasses.is_dataclass(cls):
            patches.put(cls, "__setattr__", _noting(cls.__setattr__))
        else:
            patches.missing.append(f"{target.path}: no dataclass")
    patches.on_undo(_watched.clear)


def install_resolution(patches: Patches) -> None:
    owner, name, original = resolve(CONFIG_MADE)
    patches.put(owner, name, _Resolving(original))


def _noting(original: Callable[..., None]) -> Callable[[Any, str, Any], None]:
    def __setattr__(self: Any, name: str, value: Any) -> None:
        before = self.__dict__.get(name)
        original(self, name, value)
        if probe.active():
            with contained(HOOK):
                _note(self, name, before, value, sys._getframe(1))

    return __setattr__


def _note(config: Any, name: str, before: Any, value: Any, caller: FrameType) -> None:
    watched = _watch(config)
    if name not in watched.fields or _same(before, value):
        return
    earlier = watched.changes.get(name)
    watched.changes[name] = _Change(earlier.before if earlier else _frozen(before), _line_of(caller))
    if watched.complete:
        _record(watched, config, name)


def _watch(config: Any) -> _Watched:
    watched = _watched.get(id(config))
    if watched is None or watched.alive() is not config:
        watched = _watched[id(config)] = _Watched(config)
    return watched


class _Resolving:
    """Stands in for `VllmConfig.__post_init__`, which refuses many a configuration.

    Looking the method up notes what is there before. What is then called is C code that calls the
    method and, if it returned, us: no frame of ours stands in the traceback of a refusal.
    """

    def __init__(self, original: Callable[..., None]) -> None:
        self._original = original

    def __get__(self, config: Any, owner: Any = None) -> Any:
        if config is None or not probe.active():
            return self._original if config is None else functools.partial(self._original, config)
        before: dict[str, dict[str, Any]] = {}
        with contained(HOOK):
            before = {_prefix_of(c): _containers(c) for c in _parts(config)}
        steps = (
            functools.partial(self._original, config),
            functools.partial(_record_resolved, config, before),
        )
        return functools.partial(deque, map(operator.call, steps), 0)


def _record_resolved(vllm_config: Any, before: dict[str, dict[str, Any]]) -> None:
    with contained(HOOK):
        for config in _parts(vllm_config):
            _record_all(config, before.get(_prefix_of(config), {}))


def _parts(vllm_config: Any) -> Iterator[Any]:
    config = vllm_config.compilation_config
    yield config
    yield config.pass_config
    yield config.dynamic_shapes_config


def _containers(config: Any) -> dict[str, Any]:
    """Copies of lists and dicts: they are also changed in place, where no assignment tells."""
    return {
        name: _frozen(value) for name, value in config.__dict__.items() if isinstance(value, (list, dict))
    }


def _record_all(config: Any, containers: dict[str, Any]) -> None:
    """Everything that was asked for or changed; fields that nobody touched have their defaults.

    Configurations for parts of a model share these objects; the first tells all.
    """
    watched = _watch(config)
    if watched.complete:
        return
    watched.complete = True
    for name, before in containers.items():
        if name in watched.fields and name not in watched.changes:
            watched.changes[name] = _Change(before, "VllmConfig.__post_init__, in place")
    for field in dataclasses.fields(config):
        if field.name in watched.fields and _is_set(field, watched.changes.get(field.name), config):
            _record(watched, config, field.name)


def _is_set(field: Any, change: _Change | None, config: Any) -> bool:
    value = config.__dict__.get(field.name)
    if change is not None and not _same(change.before, value):
        return True
    return value is not None and not _same(value, _default_of(field))


def _default_of(field: Any) -> Any:
    """The default of a dataclass field; pydantic's `Field(default=...)` stands in its place."""
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    default = getattr(field.default, "default", field.default)
    factory = getattr(field.default, "default_factory", None)
    return factory() if factory is not None else default


def _record(watched: _Watched, config: Any, name: str) -> None:
    effective = config.__dict__.get(name)
    change = watched.changes.get(name)
    changed = change is not None and not _same(change.before, effective)
    probe.emit(
        ConfigValue(
            key=watched.prefix + name,
            requested=text_of(change.before if change else effective),
            effective=text_of(effective),
            changed_by=change.by if change and changed else "",
            asked=_is_asked(config, name, change.before if change else effective),
        )
    )


def _is_asked(config: Any, name: str, before: Any) -> bool:
    """Whether a value was given to the configuration, and is not its default."""
    default = next((_default_of(f) for f in dataclasses.fields(config) if f.name == name), None)
    return before is not None and not _same(before, default)


def _prefix_of(config: Any) -> str:
    return {"PassConfig": "pass_config.", "DynamicShapesConfig": "dynamic_shapes_config."}.get(
        type(config).__name__, ""
    )


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


def _frozen(value: Any) -> Any:
    return value.copy() if isinstance(value, (list, dict)) else value


def text_of(value: Any) -> str:
    """A value as it is written on the command line; empty for one that was left open."""
    if value is None:
        return ""
    name = getattr(value, "name", None)
    return str(name if isinstance(name, str) else value)[:400]


_HELPERS = frozenset({"_set_config_default", "apply_recursive"})
"""Functions that assign for someone else: who called them is who changed the value."""


def _line_of(frame: FrameType) -> str:
    """The line that assigned: `CpuPlatform.check_and_update_config (vllm/platforms/cpu.py:319)`."""
    while frame.f_code.co_name in _HELPERS and frame.f_back is not None:
        frame = frame.f_back
    home = os.path.dirname(os.path.dirname(str(sys.modules["vllm"].__file__)))
    name = frame.f_code.co_filename
    place = os.path.relpath(name, home) if name.startswith(home + os.sep) else os.path.basename(name)
    function = frame.f_code.co_qualname.split("<locals>.")[-1]
    return f"{function} ({place}:{frame.f_lineno})"
