"""Compiled C++ kernels kept with an artifact, so that loading it runs no C++ compiler.

An Inductor artifact for the CPU holds its kernels' source; torch looks for the library in its own
cache folder, after asking the C++ compiler what it is and trying what the processor can do: a second
and more in every process. Here the libraries are kept by what they were made from, and handed out
where the artifact's code asks for them; whatever is not kept goes torch's way.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from compdbg.compiler.cache_entry import digest

_lock = threading.RLock()


class Keeper:
    """What was asked for while compiling: `libraries()` is read when all of it is there."""

    def __init__(self) -> None:
        self._asked: dict[str, Any] = {}

    def note(self, key: str, made: Any) -> None:
        self._asked[key] = made

    def libraries(self) -> dict[str, bytes]:
        """The library behind each kernel, by key; those that can't be read are left out."""
        found = {}
        for key, made in self._asked.items():
            function = made.result() if hasattr(made, "result") else made
            file = getattr(getattr(function, "__self__", None), "__file__", None)
            if file is not None:
                with contextlib.suppress(OSError):
                    found[key] = Path(file).read_bytes()
        return found


@contextlib.contextmanager
def keeping() -> Iterator[Keeper]:
    """Note the C++ kernels that are compiled inside the block."""
    keeper = Keeper()

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def cpp_pybinding(self: Any, *args: Any, **kwargs: Any) -> Any:
            made = original(self, *args, **kwargs)
            keeper.note(_key(args, kwargs), made)
            return made

        return cpp_pybinding

    with _replaced(around):
        yield keeper


@contextlib.contextmanager
def giving(libraries: Mapping[str, bytes]) -> Iterator[None]:
    """Hand out kept kernels to the code that is loaded inside the block."""
    if not libraries:
        yield
        return

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def cpp_pybinding(self: Any, *args: Any, **kwargs: Any) -> Any:
            key = _key(args, kwargs)
            try:
                if key in libraries:
                    return _load(key, libraries[key])
            except (ImportError, OSError, AttributeError):
                pass
            return original(self, *args, **kwargs)

        return cpp_pybinding

    with _replaced(around):
        yield


def _key(args: Any, kwargs: Any) -> str:
    return digest(repr((args, sorted(kwargs.items()))).encode())


@contextlib.contextmanager
def _replaced(around: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Iterator[None]:
    from torch._inductor.async_compile import AsyncCompile

    original = getattr(AsyncCompile, "cpp_pybinding", None)
    if original is None:
        yield
        return
    with _lock:
        AsyncCompile.cpp_pybinding = around(original)
        try:
            yield
        finally:
            AsyncCompile.cpp_pybinding = original


def _load(key: str, library: bytes) -> Any:
    """Import a kernel's library; its file can go once it is mapped."""
    import torch
    from torch._inductor.codecache import CppPythonBindingsCodeCache as Bindings

    name = f"compdbg_{key}.{Bindings.entry_function}"
    module = sys.modules.get(name)
    if module is None:
        address = torch._C._dynamo.guards._torchinductor_pyobject_tensor_data_ptr
        os.environ["_TORCHINDUCTOR_PYOBJECT_TENSOR_DATA_PTR"] = str(address)
        with tempfile.TemporaryDirectory(prefix="compdbg-kernels-") as folder:
            path = Path(folder) / f"{key}.so"
            path.write_bytes(library)
            spec = importlib.util.spec_from_file_location(name, path)
            assert spec is not None and spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        sys.modules[name] = module
    return getattr(module, Bindings.entry_function)
