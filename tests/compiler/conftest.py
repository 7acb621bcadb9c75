"""Capture tests run on the CPU with recorded calls, and marked `gpu` with CUDA graphs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> Iterator[str]:
    """Tensors that a test makes are made there."""
    before = torch.get_default_device()
    torch.set_default_device(request.param)
    yield request.param
    torch.set_default_device(before)
