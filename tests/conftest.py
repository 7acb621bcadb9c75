"""What tests share: real programs run by the real command, and blocks recorded in this process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

import compdbg
from compdbg.findings.base import Finding
from compdbg.findings.collect import find_all
from compdbg.model.run import Run, load

SHARED = Path(__file__).parents[2] / "shared"
CASES = SHARED / "cases"


class Recorded:
    """A program that was run under `compdbg run`: its process, its run, its findings."""

    def __init__(self, process: subprocess.CompletedProcess[str], folder: Path) -> None:
        self.process = process
        self.folder = folder

    @property
    def run(self) -> Run:
        return load(self.folder)

    @property
    def findings(self) -> list[Finding]:
        return find_all(self.run)

    def found(self, code: str) -> list[Finding]:
        return [f for f in self.findings if f.code == code]

    @property
    def alarms(self) -> list[str]:
        """Codes of all errors and warnings: a clean program has none."""
        return [f.code for f in self.findings if f.severity != "info"]


@pytest.fixture(autouse=True, scope="session")
def _own_cache_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What we keep of cache keys goes to a folder of the test run, never to the user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache-home")))
        yield


@pytest.fixture
def run_recorded(tmp_path: Path) -> Callable[..., Recorded]:
    """Runs a script (a path, or source text) under `compdbg run` in a process of its own."""

    def run(script: str | Path, *args: str, options: tuple[str, ...] = (), **env: str) -> Recorded:
        if isinstance(script, str):
            path = tmp_path / "program.py"
            path.write_text(textwrap.dedent(script))
        else:
            path = script
        folder = tmp_path / f"run{len(list(tmp_path.iterdir()))}"
        command = [sys.executable, "-m", "compdbg", "run", "-o", str(folder), *options, str(path), *args]
        process = subprocess.run(
            command, capture_output=True, text=True, env={**os.environ, **env}, check=False, timeout=600
        )
        return Recorded(process, folder)

    return run


@pytest.fixture
def record_here(tmp_path: Path) -> Iterator[Callable[..., AbstractContextManager[compdbg.record]]]:
    """`compdbg.record()` in this process: no import of torch to pay for; Dynamo is reset around it."""
    torch = pytest.importorskip("torch")
    torch._dynamo.reset()
    count = iter(range(1000))
    yield lambda **options: compdbg.record(tmp_path / f"here{next(count)}", **options)
    torch._dynamo.reset()


def pytest_configure() -> None:
    """Signals as a shell in the foreground leaves them, also where the tests run in the background."""
    for name in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        if signal.getsignal(name) is signal.SIG_IGN:
            default = signal.default_int_handler if name is signal.SIGINT else signal.SIG_DFL
            signal.signal(name, default)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests marked `gpu` skip cleanly where there is none."""
    if not any(item.get_closest_marker("gpu") for item in items):
        return
    import torch

    if not torch.cuda.is_available():
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))
