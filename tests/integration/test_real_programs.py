"""Programs that we did not write run bit for bit as without us, and nothing untrue is said of them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from compdbg.findings.collect import find_all
from tests.conftest import Recorded

pytestmark = pytest.mark.torch

REAL = Path(__file__).parents[2] / "fixtures" / "real"

DECODERS = ["llama", "mistral", "qwen2", "qwen3", "phi3", "gpt2", "gpt_neox", "opt", "bloom", "falcon",
            "gemma2", "mixtral", "mamba"]  # fmt: skip
ENCODERS = ["bert", "roberta", "deberta", "distilbert", "electra", "t5", "bart"]
SENSES = ["vit", "swin", "convnext", "resnet", "segformer", "detr", "clip", "whisper", "wav2vec2"]
EXAMPLES = ["encoder", "transformer", "lstm", "optimizer", "per_sample_gradients", "ensemble", "attention",
            "flex", "autocast", "checkpointed", "train_and_evaluate", "control_flow", "custom_op",
            "hooks_and_functions", "sparse_and_complex"]  # fmt: skip


THROUGH_INDUCTOR = ["optimizer", "flex", "autocast", "checkpointed", "train_and_evaluate", "control_flow"]


@pytest.fixture
def of_zoo(monkeypatch: pytest.MonkeyPatch) -> Any:
    pytest.importorskip("transformers")
    monkeypatch.syspath_prepend(str(REAL))
    import zoo

    return zoo


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["distilbert", "resnet"])
def test_a_model_in_this_process_computes_the_same_without_an_alarm(
    name: str, of_zoo: Any, record_here: Any
) -> None:
    import torch

    make, inputs = of_zoo.ZOO[name]
    torch.manual_seed(0)
    model = make().eval()
    with torch.no_grad():
        batches = list(inputs())[:3]
        eager = [model(**given)[0] for given in batches]
        with record_here() as run:
            compiled = torch.compile(model, backend="eager")
            answers = [compiled(**given)[0] for given in batches]
    assert [f.title for f in find_all(run.load()) if f.severity != "info"] == []
    for answer, wanted in zip(answers, eager, strict=True):
        torch.testing.assert_close(answer, wanted)


def fresh(tmp_path: Path, name: str) -> dict[str, str]:
    """Caches of its own for each of the two runs: a hit in the second would prove nothing."""
    return {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / name), "OMP_NUM_THREADS": "1"}


def compare(script: Path, *args: str, tmp_path: Path, run_recorded: Callable[..., Recorded]) -> None:
    """Run a program without us and with us: the same output, and no error or warning."""
    plain = subprocess.run(
        [sys.executable, str(script), *args],
        capture_output=True, text=True, check=True, env={**os.environ, **fresh(tmp_path, "plain")},
    )  # fmt: skip
    recorded = run_recorded(script, *args, options=("--quiet",), **fresh(tmp_path, "recorded"))
    assert recorded.process.returncode == 0
    assert recorded.process.stdout == plain.stdout
    assert recorded.alarms == [], recorded.findings


@pytest.mark.slow
@pytest.mark.parametrize("name", ["llama", "bert", "vit", "speech", "train"])
def test_results_are_bit_identical_and_there_is_no_alarm(
    name: str, tmp_path: Path, run_recorded: Callable[..., Recorded]
) -> None:
    if name != "train":
        pytest.importorskip("transformers")
    compare(REAL / f"{name}.py", tmp_path=tmp_path, run_recorded=run_recorded)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*DECODERS, *ENCODERS, *SENSES])
def test_models_of_transformers(name: str, tmp_path: Path, run_recorded: Callable[..., Recorded]) -> None:
    pytest.importorskip("transformers")
    compare(REAL / "zoo.py", name, "aot_eager", tmp_path=tmp_path, run_recorded=run_recorded)


@pytest.mark.slow
def test_generate_with_a_static_cache(tmp_path: Path, run_recorded: Callable[..., Recorded]) -> None:
    pytest.importorskip("transformers")
    compare(REAL / "generate.py", "aot_eager", tmp_path=tmp_path, run_recorded=run_recorded)


@pytest.mark.slow
def test_a_vision_model_through_inductor(tmp_path: Path, run_recorded: Callable[..., Recorded]) -> None:
    pytest.importorskip("transformers")
    compare(REAL / "zoo.py", "resnet", tmp_path=tmp_path, run_recorded=run_recorded)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "backend"),
    [*((name, "aot_eager") for name in EXAMPLES), *((name, "inductor") for name in THROUGH_INDUCTOR)],
)
def test_torchs_own_examples(
    name: str, backend: str, tmp_path: Path, run_recorded: Callable[..., Recorded]
) -> None:
    compare(REAL / "torch_examples.py", name, backend, tmp_path=tmp_path, run_recorded=run_recorded)


@pytest.mark.slow
@pytest.mark.parametrize("script", ["ranks.py", "ddp.py"])
def test_two_ranks_under_torchrun(script: str, tmp_path: Path) -> None:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "0"]
    command = [*torchrun, "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0", str(REAL / script)]
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
