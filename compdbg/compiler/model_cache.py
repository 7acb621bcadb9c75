"""Whole models on disk: a warm start loads Dynamo's code and every piece, and traces nothing.

An entry's key is what is known before tracing. What only tracing finds out (which files and
operators it went through, which values it read) is kept as conditions, and checked before an entry
is used; models for which they differ stand side by side under one key.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import torch
from msgspec import Struct

from compdbg.compiler import cache_factors as factors_of
from compdbg.compiler.cache_entry import Entry, Unusable, digest, from_bytes, key_of, read_header
from compdbg.compiler.caching import ENTRY, Cache, Place, differences
from compdbg.compiler.compiled_model import CompiledModel, loading
from compdbg.compiler.config import CompilationConfig
from compdbg.compiler.dump import dump_of
from compdbg.compiler.guard_check import Checker, Violation
from compdbg.compiler.guard_data import GuardRecord
from compdbg.compiler.model_conditions import (
    Conditions,
    call_signature,
    cells_of,
    closed_over,
    file_of,
    traced_sources,
)
from compdbg.compiler.passes.pass_manager import PostGradPassManager

MAX_VARIANTS = 8


class Loaded(Struct, frozen=True):
    """A model from the cache: Dynamo's callable, ours inside it, and the guards that were dropped."""

    function: Any
    model: CompiledModel
    guards: GuardRecord
    key: str


class ModelCache:
    """The entries of one method of one class."""

    def __init__(self, graph: str, config: CompilationConfig, function: Callable[..., Any]) -> None:
        self.config = config
        self.function = function
        self.cache = Cache(config, "models", "aot")
        self.dump = dump_of(config, graph)
        self.place = Place(graph, None, function.__qualname__)
        self.what = f"{function.__qualname__} in {function.__code__.co_filename}"
        """Which function, for finding the nearest earlier entry."""

    def factors(self, instance: Any, arguments: Mapping[str, Any]) -> dict[str, str]:
        """All that is known before tracing."""
        passes = PostGradPassManager()
        passes.configure(self.config)
        return {
            **factors_of.machine_factors(),
            **factors_of.environment_factors(),
            **factors_of.state_factors(),
            **factors_of.config_factors(self.config),
            **factors_of.torch_config_factors(),
            **passes.identity(),
            **factors_of.parameter_factors(instance),
            "model": f"{type(instance).__module__}.{type(instance).__qualname__}",
            "function": f"{self.function.__module__}.{self.function.__qualname__}",
            "call": call_signature(arguments),
            "what": self.what,
        }

    def load(self, factors: dict[str, str], arguments: Mapping[str, Any]) -> Loaded | None:
        """The model for these factors whose conditions hold; what was found instead is an event."""
        key = key_of(factors)
        if self.cache.disabled:
            self.cache.say(key, self.place, "disabled", reason=self.cache.disabled)
            return None
        folder = self.cache.folder(key)
        candidates = sorted(folder.glob(f"{ENTRY}-*"), key=_time_of, reverse=True)
        if not candidates:
            self.cache.say_miss(key, factors, self.place)
            return None
        refused: list[tuple[str, str, Any]] = []
        for path in candidates:
            found = self._try(path, key, arguments, refused)
            if found is not None:
                return found
        result, reason, changed = min(refused, key=_how_far)
        self.cache.say(key, self.place, result, reason=reason, nearest_key=key, changed_factors=changed)
        return None

    def store(
        self,
        result: Any,
        model: CompiledModel,
        guards: GuardRecord,
        factors: dict[str, str],
        arguments: Mapping[str, Any],
    ) -> None:
        """Keep a model that was compiled just now for `arguments`, with readable copies beside it."""
        readable = model.readable(result) if self.dump.wanted or not self.cache.disabled else {}
        self.dump.write(readable)
        if self.cache.disabled:
            return
        key = key_of(factors)
        why_not = self._why_not_kept(model, guards, arguments)
        if why_not:
            self.cache.say(key, self.place, "bypass", reason=why_not)
            return
        try:
            data = type(result).serialize(result, cells_of(self.function)).serialized_data
        except Exception as error:
            self.cache.problem(f"{self.place.graph} can't be kept: {type(error).__name__}: {error}")
            return
        conditions = Conditions(
            sources=traced_sources(result),
            operators=model.operators,
            guards=guards,
        )
        about = msgspec.to_builtins(conditions)
        name = f"{ENTRY}-{digest(json.dumps(about, sort_keys=True).encode())[:16]}"
        entry = Entry(
            key=key,
            factors=factors,
            about={"conditions": about, "pieces": model.report()},
            sections={"model": data},
        )
        self.cache.store(entry, readable, name)
        self._prune(self.cache.folder(key))

    def _try(
        self, path: Path, key: str, arguments: Mapping[str, Any], refused: list[tuple[str, str, Any]]
    ) -> Loaded | None:
        started = time.perf_counter()
        try:
            header = read_header(path)
            conditions = msgspec.convert(header["about"]["conditions"], Conditions)
            self._check(conditions, arguments)
            entry = from_bytes(path.read_bytes(), key)
            with loading(self.place.graph, self.config):
                function = torch._dynamo.aot_compile.AOTCompiledFunction.deserialize(
                    entry.sections["model"], self.function.__globals__, cells_of(self.function)
                )
        except Refused as reason:
            refused.append(("miss", str(reason), reason.changed))
            return None
        except Unusable as unusable:
            self.cache.warn(self.place, unusable.result, str(unusable), path)
            refused.append((unusable.result, str(unusable), None))
            return None
        except Exception as error:
            reason_text = f"loading failed: {type(error).__name__}: {error}"
            self.cache.warn(self.place, "stale", reason_text, path)
            refused.append(("stale", reason_text, None))
            return None
        model: CompiledModel = function._artifacts.compiled_fn
        self.cache.hit(entry, self.place, started)
        self.dump.copy(path.parent)
        model.emit_report(entry.about["pieces"], entry.made)
        return Loaded(function, model, conditions.guards, key)

    def _why_not_kept(
        self, model: CompiledModel, guards: GuardRecord, arguments: Mapping[str, Any]
    ) -> str | None:
        """What a later process could not tell: an entry that may be wrong there is not kept."""
        if not model.can_be_kept:
            return f"{self.config.backend}: a piece can't be saved"
        checker = self._checker(guards)
        lost = [*guards.unknown, *(f"{c.guard} on {c.source}" for c in checker.cannot_follow)]
        lost += [f"{v.condition.text} (seen: {v.seen})" for v in self._violations(checker, arguments)]
        more = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
        return f"a dropped guard can't be kept as data: {lost[0]}{more}" if lost else None

    def _checker(self, guards: GuardRecord) -> Checker:
        return Checker(guards.conditions, self.function.__globals__)

    def _violations(self, checker: Checker, arguments: Mapping[str, Any]) -> list[Violation]:
        return checker.violations({**closed_over(self.function), **arguments})

    def _check(self, conditions: Conditions, arguments: Mapping[str, Any]) -> None:
        """Raises Refused, with what has changed, unless all conditions hold."""
        now = {name: factors_of.file_hash(file_of(name)) for name in conditions.sources}
        changed = differences(conditions.sources, now)
        operators = {name.split()[1].partition(".")[0] for name in conditions.operators}
        changed += differences(conditions.operators, factors_of.operators_by_name(operators))
        found = self._violations(self._checker(conditions.guards), arguments)
        changed += [
            differences({v.condition.source: f"{v.condition.value}"}, {v.condition.source: v.seen})[0]
            for v in found
        ]
        if changed:
            raise Refused(changed)

    def _prune(self, folder: Path) -> None:
        for path in sorted(folder.glob(f"{ENTRY}-*"), key=_time_of, reverse=True)[MAX_VARIANTS:]:
            path.unlink(missing_ok=True)


class Refused(Exception):
    """An entry for a model that is not as this one."""

    def __init__(self, changed: list[Any]) -> None:
        super().__init__("changed: " + ", ".join(change.name for change in changed))
        self.changed = changed


def _how_far(refused: tuple[str, str, list[Any] | None]) -> tuple[bool, int]:
    """An entry with fewer differences is nearer; one that can't be used at all is told first."""
    _, _, changed = refused
    return changed is not None, len(changed or ())


def _time_of(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
