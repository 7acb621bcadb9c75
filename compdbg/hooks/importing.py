"""Runs a callback right after a module has been imported by the program, never before.

Works by standing first on `sys.meta_path`, finding the module's real spec, and wrapping its
loader's `exec_module`; modules that nobody waits for are not touched.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
import threading
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

Callback = Callable[[], None]
_waiting: dict[str, list[Callback]] = {}
_busy = threading.local()


def on_import(module: str, callback: Callback) -> None:
    """Call `callback` once, after `module` was executed; at once if it already has been."""
    loaded = sys.modules.get(module)
    if loaded is not None and not _still_executing(loaded):
        callback()
        return
    _waiting.setdefault(module, []).append(callback)
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def forget(callback: Callback) -> None:
    """Take back an `on_import` that has not happened yet."""
    for callbacks in _waiting.values():
        if callback in callbacks:
            callbacks.remove(callback)


def _still_executing(module: ModuleType) -> bool:
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in _waiting or getattr(_busy, "name", None) == fullname:
            return None
        _busy.name = fullname
        try:
            spec = importlib.util.find_spec(fullname)
        except (ImportError, ValueError):
            return None
        finally:
            _busy.name = None
        if spec is not None and spec.loader is not None:
            _announce(spec.loader, fullname)
        return spec


def _announce(loader: Any, fullname: str) -> None:
    execute = getattr(loader, "exec_module", None)
    if execute is None:
        return

    def exec_module(module: ModuleType) -> None:
        del loader.exec_module
        execute(module)
        for callback in _waiting.pop(fullname, []):
            callback()

    loader.exec_module = exec_module


_finder = _Finder()
