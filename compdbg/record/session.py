"""One process being recorded: its file, its hooks, its start and end."""

from __future__ import annotations

import contextlib
import os
import platform
import secrets
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from compdbg import probe
from compdbg.events import ProcessEnd, ProcessStart, TorchLoaded, Where
from compdbg.hooks.importing import on_import
from compdbg.record.options import Options
from compdbg.record.privacy import safe_argv, safe_environment
from compdbg.record.writer import Writer


class Session:
    """Started once a process (again in a forked child); `close` is called at exit, if at all."""

    def __init__(self, folder: Path, options: Options, how: str) -> None:
        self.folder = folder
        self.options = options
        self.how = how
        self.closing: list[Callable[[], None]] = []
        self._remove: Callable[[], None] = lambda: None
        self.writer = self._open()

    def start(self) -> None:
        """Begin to record: the process's start now, the hooks when torch is imported."""
        probe.set_sink(self.writer)
        probe.emit(_describe(self.how))
        on_import("torch", self._torch_loaded)

    def after_fork(self) -> None:
        """In the child of a fork: a file of its own. The hooks came along with the memory."""
        self.writer = self._open()
        self.how = "fork"
        probe.set_sink(self.writer)
        probe.emit(_describe("fork"))

    def close(self) -> None:
        """Write what was tallied, and the end record; take the hooks out."""
        for action in self.closing:
            with contextlib.suppress(Exception):
                action()
        self._remove()
        probe.emit(_last_word())
        probe.set_sink(None)
        self.writer.close()

    def _open(self) -> Writer:
        pid = os.getpid()
        rank = _int_from_environment("RANK")
        process = f"{pid}-{secrets.token_hex(2)}"
        tag = "" if rank is None else f"-rank{rank}"
        name = f"{socket.gethostname()}-{process}{tag}"
        return Writer(self.folder, name, run=self.folder.name, process=process, rank=rank)

    def _torch_loaded(self) -> None:
        from compdbg.hooks.installed import install_all

        probe.emit(_describe_torch())
        self._remove = install_all(self.options.skip)


def _describe(how: str) -> ProcessStart:
    return ProcessStart(
        pid=os.getpid(),
        ppid=os.getppid(),
        argv=safe_argv(sys.orig_argv),
        executable=sys.executable,
        python=platform.python_version(),
        cwd=os.getcwd(),
        host=socket.gethostname(),
        world_size=_int_from_environment("WORLD_SIZE"),
        local_rank=_int_from_environment("LOCAL_RANK"),
        how=how,
        env=safe_environment(os.environ),
    )


def _describe_torch() -> TorchLoaded:
    torch = sys.modules["torch"]
    version = sys.modules.get("torch.version")
    return TorchLoaded(
        torch=str(getattr(torch, "__version__", "?")),
        triton=_version_of("triton"),
        cuda=getattr(version, "cuda", None),
        vllm=_version_of("vllm"),
    )


def _version_of(package: str) -> str | None:
    import importlib.metadata

    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _last_word() -> ProcessEnd:
    error = getattr(sys, "last_value", None)
    if error is None:
        return ProcessEnd()
    step = error.__traceback__
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    code = step.tb_frame.f_code if step is not None else None
    where = Where(code.co_filename, step.tb_lineno, code.co_name) if step and code else None
    return ProcessEnd(uncaught=type(error).__name__, message=str(error)[:2000], where=where)


def _int_from_environment(name: str) -> int | None:
    value = os.environ.get(name, "")
    return int(value) if value.isdecimal() else None


def options_to_json(options: Options) -> str:
    return msgspec.json.encode(options).decode()


def options_from_json(text: str) -> Options:
    return msgspec.json.decode(text, type=Options) if text else Options()
