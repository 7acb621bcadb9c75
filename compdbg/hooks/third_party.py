"""Hooks of other packages, by entry points `compdbg.hooks`: each names a `Hook` of its own.

They are loaded when torch has been imported. One that can't be loaded is told as absent.
"""

from __future__ import annotations

import functools
import importlib.metadata
from collections.abc import Callable, Collection

from compdbg import probe
from compdbg.events import HookState
from compdbg.hooks.base import Hook, Part, Patches, install_part, report_error
from compdbg.hooks.importing import on_import

GROUP = "compdbg.hooks"


def third_party_names() -> list[str]:
    """The names under which other packages' hooks can be switched off."""
    return sorted(entry.name for entry in importlib.metadata.entry_points(group=GROUP))


def arm_third_party(skip: Collection[str], done: list[Patches], waiting: list[Callable[[], None]]) -> None:
    """Have each hook's parts installed when the program imports their modules. Never raises."""
    for entry in _entries():
        if entry.name in skip:
            probe.emit(HookState(hook=entry.name, state="unused", detail="switched off"))
            continue
        try:
            hook = entry.load()
            if not isinstance(hook, Hook):
                raise TypeError(f"{entry.value} is a {type(hook).__name__}, not a Hook")
            hook = hook._replace(name=entry.name)
            parts = list(hook.parts)
        except Exception as error:
            report_error(entry.name, error)
            detail = f"{entry.value}: {type(error).__name__}: {error}"
            probe.emit(HookState(hook=entry.name, state="absent", detail=detail))
            continue
        for part in parts:
            callback = functools.partial(_install, hook, part, done)
            waiting.append(callback)
            on_import(part.module, callback)


def _entries() -> list[importlib.metadata.EntryPoint]:
    try:
        return list(importlib.metadata.entry_points(group=GROUP))
    except Exception as error:  # a damaged dist-info of another package
        report_error("third-party", error)
        return []


def _install(hook: Hook, part: Part, done: list[Patches]) -> None:
    done.append(install_part(hook, part))
