"""Programs that we did not write run bit for bit as without us, and nothing untrue is said of them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Recorded

pytestmark = [pytest.mark.torch, pytest.mark.slow]

REAL = Path(__file__).parents[2] / "fixtures" / "real"


def fresh(tmp_path: Path, name: str) -> dict[str, str]:
    """Caches of its own for each of the two runs: a hit in the second would prove nothing."""
    return {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / name), "OMP_NUM_THREADS": "1"}


@pytest.mark.parametrize("name", ["llama", "bert", "vit", "speech", "train"])
def test_results_are_bit_identical_and_there_is_no_alarm(
    name: str, tmp_path: Path, run_recorded: Callable[..., Recorded]
) -> None:
    if name not in ("train",):
        pytest.importorskip("transformers")
    script = REAL / f"{name}.py"
    plain = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True, text=True, check=True, env={**os.environ, **fresh(tmp_path, "plain")},
    )  # fmt: skip
    recorded = run_recorded(script, options=("--quiet",), **fresh(tmp_path, "recorded"))
    assert recorded.process.returncode == 0
    assert recorded.process.stdout == plain.stdout
    assert recorded.alarms == [], recorded.findings


def test_two_ranks_under_torchrun(tmp_path: Path) -> None:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "0"]
    command = [*torchrun, "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0", str(REAL / "ranks.py")]
    plain = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, **fresh(tmp_path, "plain")}
    )
    folder = tmp_path / "run"
    recorded = subprocess.run(
        [sys.executable, "-m", "compdbg", "run", "--quiet", "-o", str(folder), "--", *command],
        capture_output=True, text=True, check=False, env={**os.environ, **fresh(tmp_path, "recorded")},
    )  # fmt: skip
    found = Recorded(recorded, folder)
    assert recorded.returncode == 0, recorded.stderr
    assert recorded.stdout == plain.stdout
    assert found.run.summary.ranks == [0, 1]
    assert found.alarms == [], found.findings
