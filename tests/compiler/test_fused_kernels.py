"""The fused kernels agree with float64: in Triton's interpreter everywhere, on a GPU where there is one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")

CHECKS = ["norms", "activations", "rope", "attention"]
SIZES = ["norm sizes", "activation sizes", "rope sizes"]


@pytest.mark.parametrize("name", CHECKS + SIZES)
def test_kernels_in_the_interpreter(name):
    process = subprocess.run(
        [sys.executable, "-m", "tests.compiler.kernel_checks", name],
        env={**os.environ, "TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert process.returncode == 0, process.stderr[-3000:]


@pytest.mark.gpu
@pytest.mark.parametrize("name", CHECKS + SIZES)
def test_kernels_on_the_gpu(name):
    from tests.compiler import kernel_checks, kernel_sizes

    (kernel_checks.CHECKS | kernel_sizes.CHECKS)[name]("cuda")
