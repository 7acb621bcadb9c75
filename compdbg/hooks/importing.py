"""Runs a callback right after a module has been imported by the program, never before.

Stands first on `sys.meta_path`, has the other finders find the module, and wraps its loader's
`exec_module`; modules that nobody waits for are not touched. Runs in every recorded process from
its start, so it imports nothing that Python has not loaded by itself.
"""

import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

    Callback = Callable[[], None]

_waiting: "dict[str, list[Callback]]" = {}
seconds: "dict[str, float]" = {}
"""How long the import of a module that was waited for took."""
_executed: set[str] = set()
"""Modules whose code has run to its end under our eyes, though Python still calls them initialising."""


def on_import(module: str, callback: "Callback") -> None:
    """Call `callback` once, after `module` was executed; at once if it already has been."""
    loaded = sys.modules.get(module)
    if loaded is not None and (module in _executed or not _still_executing(loaded)):
        callback()
        return
    _waiting.setdefault(module, []).append(callback)
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def forget(callback: "Callback") -> None:
    """Take back an `on_import` that has not happened yet."""
    for module, callbacks in list(_waiting.items()):
        if callback in callbacks:
            callbacks.remove(callback)
        if not callbacks:
            _waiting.pop(module, None)
    if not _waiting and _finder in sys.meta_path:
        sys.meta_path.remove(_finder)


def _still_executing(module: "ModuleType") -> bool:
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


class _Finder:
    def find_spec(
        self, fullname: str, path: "Sequence[str] | None" = None, target: "ModuleType | None" = None
    ) -> "ModuleSpec | None":
        if fullname not in _waiting:
            return None
        for finder in list(sys.meta_path):
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec = None if find is None else find(fullname, path, target)
            if spec is not None:
                _announce(spec.loader, fullname)
                return spec  # type: ignore[no-any-return]
        return None


def _announce(loader: "Any", fullname: str) -> None:
    execute = getattr(loader, "exec_module", None)
    if execute is None or isinstance(loader, type):
        return

    def exec_module(module: "ModuleType") -> None:
        loader.__dict__.pop("exec_module", None)
        started = time.perf_counter()
        execute(module)
        seconds[fullname] = time.perf_counter() - started
        _executed.add(fullname)
        for callback in _waiting.pop(fullname, []):
            _contained(callback)

    # Python leaves the import system's own frames out of tracebacks, and does not count them for
    # a warning's stacklevel; so must it be with this one, which stands among them.
    exec_module.__code__ = exec_module.__code__.replace(co_filename="<frozen importlib._bootstrap>")
    try:
        loader.exec_module = exec_module
    except AttributeError:
        return


def _contained(callback: "Callback") -> None:
    try:
        callback()
    except Exception as error:
        from compdbg.hooks.base import report_error

        report_error("importing", error)


_finder: "Any" = _Finder()
