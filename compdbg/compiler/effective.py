"""From the configuration that was asked for to the one in effect, with who changed what and why.

Also which configuration is the current one: that of the innermost `use_config`, else the default.
"""

from __future__ import annotations

import contextvars
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from compdbg import probe
from compdbg.compiler.config import CompilationConfig, CompilationMode, CUDAGraphMode, PassConfig
from compdbg.compiler.config_values import ConfigError, shown
from compdbg.compiler.overrides import Change, all_keys, apply_overrides, get, replaced
from compdbg.events import ConfigValue

DEFAULT_CAPTURE_SIZES: tuple[int, ...] = (1, 2, 4, *range(8, 257, 8))

_current: contextvars.ContextVar[CompilationConfig | None] = contextvars.ContextVar(
    "compdbg_config", default=None
)


@contextmanager
def use_config(config: CompilationConfig) -> Iterator[CompilationConfig]:
    """Models constructed inside the block are bound to `config`."""
    if not isinstance(config, CompilationConfig):
        raise ConfigError(f"use_config takes a CompilationConfig, not {type(config).__name__}")
    token = _current.set(config)
    try:
        yield config
    finally:
        _current.reset(token)


def current_config() -> CompilationConfig:
    """The configuration that a model constructed now would be bound to."""
    return _current.get() or CompilationConfig()


_SETTLERS = ("the compiler", "the pass manager")
"""Who changes what the user set; a command line and an environment are the user's own."""


class Effective(msgspec.Struct, frozen=True):
    """A configuration with every value filled in, and the changes on the way to it."""

    config: CompilationConfig
    changes: list[Change]

    def set_by(self, key: str) -> str:
        """What set a value from outside: `-cc.backend=eager`, a variable; empty for the program itself."""
        found = (c.by for c in reversed(self.changes) if c.key == key and c.by not in _SETTLERS)
        return next(found, "")

    @property
    def capture_sizes(self) -> list[int]:
        return self.config.cudagraph_capture_sizes or []


def resolve(requested: CompilationConfig, available_passes: frozenset[str] = frozenset()) -> Effective:
    """Apply what comes from outside, fill in what was left open, settle what excludes each other."""
    config, changes = apply_overrides(requested)
    settle = _Settler(config, changes)
    settle.mode()
    settle.partition()
    settle.sizes()
    settle.tuning()
    settle.passes(available_passes)
    return Effective(settle.config, changes)


def emit_config(requested: CompilationConfig, effective: Effective) -> None:
    """One event a value that was asked for or changed; the last change of a key is the one said."""
    if not probe.active():
        return
    default = CompilationConfig()
    changed = {change.key: change for change in effective.changes}
    given = {change.key for change in effective.changes if change.by not in _SETTLERS}
    known = all_keys(CompilationConfig)
    for key in [*known, *(key for key in changed if key not in known)]:
        if key in changed:
            change = changed[key]
            settled = change.by in _SETTLERS and not _meant(change, effective.config.mode, changed, given)
            probe.emit(
                ConfigValue(
                    key=key,
                    requested=change.requested,
                    effective=change.effective,
                    changed_by=change.by,
                    why=change.why,
                    asked=settled and (key in given or get(requested, key) != get(default, key)),
                )
            )
        elif not isinstance(get(default, key), msgspec.Struct) and get(requested, key) != get(default, key):
            value = shown(get(requested, key))
            probe.emit(ConfigValue(key=key, requested=value, effective=value, asked=True))


def _meant(change: Change, mode: CompilationMode, changed: dict[str, Change], given: set[str]) -> bool:
    """Whoever turns compilation off, or sets from outside what takes a value away, wants what follows."""
    root = change.why.removeprefix("the ").partition(" is ")[0]
    if mode is CompilationMode.NONE or root in given:
        return mode is CompilationMode.NONE or change.key not in given
    return root in changed and root != change.key and _meant(changed[root], mode, changed, given)


def _may_be_inductor(config: CompilationConfig) -> bool:
    """Whether the backend runs Inductor's passes and ours; of one that is not there nothing is said."""
    from compdbg.compiler.compiler_interface import is_registered, uses_inductor  # imports torch

    return not is_registered(config.backend) or uses_inductor(config)


class _Settler:
    """The rules, each of which replaces values and says why."""

    def __init__(self, config: CompilationConfig, changes: list[Change]) -> None:
        self.config = config
        self.changes = changes

    def mode(self) -> None:
        mode = self.config.mode
        if mode is CompilationMode.FULL:
            self._fill("splitting_ops", self.config.splitting_ops or [])
            return
        why = f"mode is {mode.name}: only FULL splits, captures and runs passes of ours"
        self._change("cudagraph_mode", CUDAGraphMode.NONE, "the compiler", why)
        self._change("splitting_ops", [], "the compiler", why)

    def partition(self) -> None:
        if self.config.use_inductor_graph_partition and self.config.backend != "inductor":
            why = f"the backend is {self.config.backend}: only Inductor partitions graphs"
            self._change("use_inductor_graph_partition", False, "the compiler", why)

    def sizes(self) -> None:
        captures = self.config.cudagraph_capture_sizes
        if self.config.cudagraph_mode is CUDAGraphMode.NONE:
            why = "cudagraph_mode is NONE: nothing is captured"
            self._change("cudagraph_capture_sizes", [], "the compiler", why)
        elif captures is None:
            self._fill("cudagraph_capture_sizes", list(DEFAULT_CAPTURE_SIZES))
        else:
            self._fill("cudagraph_capture_sizes", sorted(set(captures)))
        known = self.config.cudagraph_capture_sizes or []
        wanted = [s for s in self.config.compile_sizes or [] if isinstance(s, int)]
        if "cudagraph_capture_sizes" in (self.config.compile_sizes or []):
            wanted += known
        self._fill("compile_sizes", sorted(set(wanted)))
        self._fill("compile_ranges", sorted(self.config.compile_ranges or []))

    def tuning(self) -> None:
        why = ""
        if self.config.mode is not CompilationMode.FULL:
            why = f"mode is {self.config.mode.name}: only FULL compiles sizes on their own"
        elif self.config.backend != "inductor" and not _may_be_inductor(self.config):
            why = f"the backend is {self.config.backend}: only Inductor tunes"
        elif not self.config.compile_sizes:
            why = "compile_sizes is empty: only sizes that are compiled on their own are tuned"
        if why and self.config.tune_single_sizes:
            self._change("tune_single_sizes", False, "the compiler", why)

    def passes(self, available: frozenset[str]) -> None:
        asked, idle = self.config.pass_config, self._why_no_pass_runs()
        if idle and self.config.inductor_passes:
            self._change("inductor_passes", [], "the compiler", idle)
        for flag in PassConfig.flags():
            wanted = getattr(asked, flag)
            usual = flag == "eliminate_noops" if asked.enable_all is None else asked.enable_all
            value = usual if wanted is None else wanted
            if value and (idle or flag not in available):
                if wanted:
                    by = "the compiler" if idle else "the pass manager"
                    why = idle or "no pass is registered for this switch"
                    self._change(f"pass_config.{flag}", False, by, why)
                    continue
                value = False
            self._fill(f"pass_config.{flag}", value)

    def _why_no_pass_runs(self) -> str:
        if self.config.mode is not CompilationMode.FULL:
            return f"mode is {self.config.mode.name}: only FULL splits, captures and runs passes of ours"
        if self.config.backend != "inductor" and not _may_be_inductor(self.config):
            return f"the backend is {self.config.backend}: only Inductor runs passes"
        return ""

    def _fill(self, key: str, value: Any) -> None:
        self.config = replaced(self.config, key, value)

    def _change(self, key: str, value: Any, by: str, why: str) -> None:
        before = get(self.config, key)
        self._fill(key, value)
        if before and before != value and before is not CUDAGraphMode.NONE:
            self.changes.append(Change(key, shown(before), shown(value), by, why))
