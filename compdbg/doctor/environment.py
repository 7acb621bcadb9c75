"""What the machine offers: versions, a C++ compiler, folders that can be written. Without torch."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from msgspec import Struct

State = Literal["works", "degraded", "absent", "unused"]
OLDEST, NEWEST = (2, 11), (2, 14)
"""Versions of torch that every hook was tried on, first and last."""


class Check(Struct, frozen=True, kw_only=True):
    """One row of `compdbg doctor`. `fatal`: compdbg can't do its work like this."""

    check: str
    state: State
    detail: str
    fatal: bool = False


def environment() -> Iterator[Check]:
    yield Check(check="python", state="works", detail=platform.python_version())
    yield _torch()
    yield _optional("triton", "kernels for GPUs can't be compiled")
    yield _optional("vllm", "only needed to debug vLLM itself")
    yield _compiler()
    yield _folder("inductor cache", _inductor_cache())
    yield _folder("runs", Path("compdbg-runs"))


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _torch() -> Check:
    version = _version("torch")
    if version is None:
        return Check(check="torch", state="absent", detail="not installed: pip install torch", fatal=True)
    number = tuple(int(part) for part in version.split("+")[0].split(".")[:2] if part.isdecimal())
    if number < OLDEST:
        return Check(check="torch", state="degraded", detail=f"{version}: older than 2.11", fatal=True)
    if number > NEWEST:
        detail = f"{version}: newer than any that was tried; hooks that differ say so below"
        return Check(check="torch", state="degraded", detail=detail)
    return Check(check="torch", state="works", detail=version)


def _optional(package: str, without: str) -> Check:
    version = _version(package)
    if version is None:
        return Check(check=package, state="unused", detail=f"not installed: {without}")
    return Check(check=package, state="works", detail=version)


def _compiler() -> Check:
    name = os.environ.get("CXX", "g++")
    found = shutil.which(name) or shutil.which("clang++")
    if found is None:
        detail = f"{name} not found: Inductor can't compile for the CPU; install g++ or set CXX"
        return Check(check="c++ compiler", state="absent", detail=detail)
    return Check(check="c++ compiler", state="works", detail=found)


def _inductor_cache() -> Path:
    import getpass

    given = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    return Path(given) if given else Path(tempfile.gettempdir()) / f"torchinductor_{getpass.getuser()}"


def _folder(check: str, folder: Path) -> Check:
    """Whether a file can be made in `folder`, or in the nearest parent that exists."""
    existing = next((p for p in (folder, *folder.absolute().parents) if p.is_dir()), Path("/"))
    try:
        with tempfile.TemporaryFile(dir=existing):
            return Check(check=check, state="works", detail=f"{folder} can be written")
    except OSError as error:
        return Check(check=check, state="absent", detail=f"{folder}: {error.strerror}")
