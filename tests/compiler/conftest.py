"""Capture tests run on the CPU with recorded calls, and marked `gpu` with CUDA graphs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from compdbg.compiler.piece_cache import forget

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


@pytest.fixture(params=DEVICES)
def target(request: pytest.FixtureRequest) -> str:
    """The device of a test that places its tensors itself."""
    return str(request.param)


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> Iterator[str]:
    """Tensors that a test makes are made there. Not for tests that compile: Dynamo would see it."""
    if request.param == "cpu":
        yield "cpu"
        return
    torch.set_default_device(request.param)
    yield request.param
    torch.set_default_device(None)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test has a compile cache of its own, also in memory; the user's is never read or written."""
    forget()
    folder = tmp_path / "compile_cache"
    monkeypatch.setenv("COMPDBG_CACHE_DIR", str(folder))
    for name in ("COMPDBG_CC", "COMPDBG_DISABLE_COMPILE_CACHE", "VLLM_DISABLE_COMPILE_CACHE", "RANK"):
        monkeypatch.delenv(name, raising=False)
    return folder
