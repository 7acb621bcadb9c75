"""Compiles all that `fused_kernels` measures, in many processes at once: timing then finds it on disk.

    python -m benchmarks.fused_warm_up SHARE SHARES

What Inductor tunes by timing is left to the process that measures, which has the GPU to itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch

from benchmarks.fused_kernels import compiled, plan, ways_to_lay_out

ROOT = Path(__file__).parent.parent
SHARES = 8


def started() -> list[subprocess.Popen[bytes]]:
    """The processes, which share their caches with this one."""
    os.environ["TORCHINDUCTOR_AUTOTUNE_LOCAL_CACHE"] = "0"
    command = [sys.executable, "-m", "benchmarks.fused_warm_up"]
    shares = range(min(SHARES, max(1, (os.cpu_count() or 2) - 2)))
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": ROOT}
    quiet["env"] = {**os.environ, "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    return [subprocess.Popen([*command, str(i), str(len(shares))], **quiet) for i in shares]


def finished(processes: list[subprocess.Popen[bytes]], seconds: float) -> int:
    """How many have ended by themselves; the others are ended here."""
    until = time.perf_counter() + seconds
    for process in processes:
        try:
            process.wait(max(0.1, until - time.perf_counter()))
        except subprocess.TimeoutExpired:
            process.kill()
    return sum(process.wait() == 0 for process in processes)


def main() -> None:
    share, shares = map(int, sys.argv[1:])
    torch.set_grad_enabled(False)
    for region, (tokens, width) in plan(small=False)[share::shares]:
        example = region.make(tokens, width, "cuda")
        attempt(region.fused, example)
        attempt(compiled(region, example), example)
    for _, _, _, choices, call in list(ways_to_lay_out(small=False))[share::shares]:
        for choice in choices:
            make, use = call(choice)
            attempt(use, make())


def attempt(call: Any, arguments: Any) -> None:
    """What fails here fails again, and is told, where it is measured."""
    try:
        call(*arguments)
    except Exception:
        return


if __name__ == "__main__":
    main()
