"""The heavy half of recording one process: the sink is set and the hooks go in once torch is there."""

from __future__ import annotations

import importlib.metadata
import os
import sys
from collections.abc import Callable
from typing import Any

from compdbg import probe
from compdbg.events import TorchLoaded
from compdbg.hooks.importing import forget, on_import
from compdbg.record.lines import Lines
from compdbg.record.options import Options
from compdbg.record.writer import Writer


class Session:
    """Hooks and sink of one process."""

    def __init__(self, lines: Lines, options: Options) -> None:
        self.options = options
        self.writer = Writer(lines)
        self._remove: Callable[[], None] = lambda: None

    def start(self) -> None:
        """Record from now on; hooks are installed when torch has been imported."""
        probe.set_sink(self.writer)
        on_import("torch", self._torch_loaded)
        on_import("multiprocessing.util", self._watch_workers)

    def forked(self, lines: Lines) -> None:
        """In the child of a fork: the same hooks write to the child's own file."""
        self.writer = Writer(lines)
        probe.forked(self.writer)

    def close(self) -> None:
        """Take the hooks out, have what was tallied written, record no more."""
        forget(self._torch_loaded)
        forget(self._watch_workers)
        self._remove()
        probe.set_sink(None)

    def _torch_loaded(self) -> None:
        from compdbg.hooks.installed import install_all

        probe.emit(_describe_torch())
        self._remove = install_all(self.options.skip)

    def _watch_workers(self) -> None:
        """Workers of multiprocessing leave by `os._exit`, without atexit: close from its own finalizers."""
        from compdbg.record.process import current

        util = sys.modules["multiprocessing.util"]

        def in_worker(session: Session) -> None:
            process = current()
            if process is not None and process.session is session:
                util.Finalize(None, process.end, args=(None,), exitpriority=-(2**31))

        util.register_after_fork(self, in_worker)


def _describe_torch() -> TorchLoaded:
    torch = sys.modules["torch"]
    version = sys.modules.get("torch.version")
    return TorchLoaded(
        torch=str(getattr(torch, "__version__", "?")),
        triton=_version_of("triton"),
        cuda=getattr(version, "cuda", None),
        vllm=_version_of("vllm"),
        device=_device(version),
    )


def _device(version: Any) -> str:
    """What torch will compute on, without asking CUDA: that would forbid the program to fork."""
    if getattr(version, "cuda", None) and os.path.exists("/dev/nvidiactl"):
        return "cuda"
    if getattr(version, "hip", None) and os.path.exists("/dev/kfd"):
        return "hip"
    return "cpu"


def compiled_frames() -> int:
    """How many compiled frames are alive now: what a recording that begins late has not seen."""
    convert_frame = sys.modules.get("torch._dynamo.convert_frame")
    seen = getattr(getattr(convert_frame, "output_codes", None), "seen", ())
    return sum(code() is not None for code in seen)


def _version_of(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
