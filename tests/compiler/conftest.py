"""Capture tests run on the CPU with recorded calls, and marked `gpu` with CUDA graphs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

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
