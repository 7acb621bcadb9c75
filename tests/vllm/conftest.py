"""Programs that run real vLLM on a CPU, each in a process of its own, with and without recording."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Recorded

HERE = Path(__file__).parent
WITH_VLLM = importlib.util.find_spec("vllm") is not None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here is marked `vllm`, and skipped cleanly where vLLM is not installed."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.vllm)
            if not WITH_VLLM:
                item.add_marker(pytest.mark.skip(reason="needs vLLM; see `make test-vllm`"))


class Engine:
    """Runs the programs beside this file. Runs that name the same `cache` share vLLM's cache folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def plain(
        self, program: str | Path, *args: str, cache: str, **env: str
    ) -> subprocess.CompletedProcess[str]:
        return self._python([str(HERE / "programs" / program), *args], cache, env)

    def recorded(self, program: str | Path, *args: str, cache: str, **env: str) -> Recorded:
        run = self.folder / f"run{len(list(self.folder.iterdir()))}"
        command = ["-m", "compdbg", "run", "--quiet", "-o", str(run), str(HERE / "programs" / program)]
        return Recorded(self._python([*command, *args], cache, env), run)

    def show(self, recorded: Recorded, view: str) -> Any:
        """The rows of a view, as `compdbg show --json` prints them."""
        answer = self._python(["-m", "compdbg", "show", str(recorded.folder), view, "--json"], "unused", {})
        return json.loads(answer.stdout)["items"]

    def cache_entries(self, cache: str) -> list[str]:
        """Keys of the models that vLLM keeps compiled."""
        return [p.name for p in (self.folder / cache).glob("torch_compile_cache/torch_aot_compile/*")]

    def _python(self, words: list[str], cache: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
        environment = {
            **os.environ,
            "PYTHONPATH": str(HERE / "plugin"),
            "VLLM_CACHE_ROOT": str(self.folder / cache),
            "TORCHINDUCTOR_CACHE_DIR": str(self.folder / cache / "inductor"),
            "XDG_CACHE_HOME": str(self.folder / cache / "xdg"),
            "VLLM_LOGGING_LEVEL": "ERROR",
            "VLLM_NO_USAGE_STATS": "1",
            "OMP_NUM_THREADS": "1",
            **env,
        }
        return subprocess.run(
            [sys.executable, *words],
            capture_output=True,
            text=True,
            env=environment,
            check=False,
            timeout=600,
        )


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    return Engine(tmp_path_factory.mktemp("vllm"))


Show = Callable[[Recorded, str], Any]
