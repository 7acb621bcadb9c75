"""Fresh compile caches for a block: nothing in it is served from what was compiled before."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_FOLDERS = {
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "TRITON_CACHE_DIR": "triton",
    "COMPDBG_CACHE_DIR": "compdbg",
    "VLLM_CACHE_ROOT": "vllm",
}
"""Variables that name caches of compiled code, and the folders they are given."""


@contextmanager
def fresh_caches(folder: Path) -> Iterator[None]:
    """Caches on disk are empty folders below `folder`, and those in memory are emptied, before and after."""
    before = {name: os.environ.get(name) for name in _FOLDERS}
    os.environ.update({name: str(folder / below) for name, below in _FOLDERS.items()})
    _forget()
    try:
        yield
    finally:
        _forget()
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        for below in _FOLDERS.values():
            shutil.rmtree(folder / below, ignore_errors=True)


def _forget() -> None:
    """Drop what this process has compiled; what it has not imported has nothing to drop."""
    for module, name in (("torch._dynamo", "reset"), ("torch._inductor.utils", "clear_caches")):
        forget = getattr(sys.modules.get(module), name, None)
        if forget is not None:
            forget()
