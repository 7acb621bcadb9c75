"""Sections of a benchmark, one after the other: one that fails is reported, and the next one runs."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).parent.parent
Row = dict[str, Any]


class Sections:
    """What all sections share: the options, the deadline, and the results so far, kept in a file."""

    def __init__(self, options: argparse.Namespace, name: str, *, goes_on: bool = False) -> None:
        """Results are in `OUT/NAME.json`; one that `goes_on` keeps those of sections that ran before."""
        self.options = options
        self.small = options.small
        self.started = time.perf_counter()
        self.path = options.out / f"{name}.json"
        earlier = json.loads(self.path.read_text()) if goes_on and self.path.is_file() else {}
        self.results: Row = {**earlier, "machine": machine(options.device)}
        self.reserve = 0.0
        """Seconds that are to be left to later sections."""

    @property
    def left(self) -> float:
        return float(self.options.seconds - (time.perf_counter() - self.started))

    def keep(self, name: str, found: Any) -> None:
        self.results[name] = found
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(self.results, indent=1, default=str) + "\n")

    def section(
        self, name: str, measure: Callable[[Any], Any], *, needs: float = 5.0, reserve: float = 0.0
    ) -> None:
        """Run one section, if it was asked for and there is time; keep what it gives, or why it failed."""
        if self.options.only and name not in self.options.only:
            return
        self.reserve = reserve
        if self.left < max(needs, reserve):
            self.keep(name, {"skipped": f"{self.left:.0f} s left"})
            return
        print(f"\n=== {name} ({self.left:.0f} s left)", flush=True)
        began = time.perf_counter()
        try:
            self.keep(name, measure(self))
        except Exception as error:
            traceback.print_exc(limit=-8)
            kept = self.results.get(name)
            partial = kept if isinstance(kept, dict) else {}
            self.keep(name, {**partial, "failed": f"{type(error).__name__}: {error}"[:2000]})
        if self.options.device == "cuda":
            torch.cuda.empty_cache()
        seconds = round(time.perf_counter() - began, 1)
        self.keep("seconds", {**self.results.get("seconds", {}), name: seconds})
        print(
            f"{json.dumps(self.results[name], indent=1, default=str)[:3000]}\n--- {name}: {seconds} s",
            flush=True,
        )


def machine(device: str) -> Row:
    gpu = torch.cuda.get_device_name() if device == "cuda" else None
    return {
        "torch": torch.__version__,
        "python": platform.python_version(),
        "gpu": gpu,
        "cores": os.cpu_count(),
    }


def tests_of(run: Sections, marks: str, tests: list[str], most: float) -> Row:
    """What pytest says of some of the tests of `tests/compiler`, in at most so many seconds."""
    command = [
        sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "addopts=", "-W", "ignore",
        "-o", "filterwarnings=", "-m", marks, "--tb=short", "--maxfail=40", "--durations=5",
        *(str(path) for test in tests for path in sorted((ROOT / "tests/compiler").glob(test))),
    ]  # fmt: skip
    log = run.path.with_name(f"{run.path.stem}_checks.log")
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as written:
        try:
            code = subprocess.run(
                command,
                cwd=ROOT,
                stdout=written,
                stderr=subprocess.STDOUT,
                timeout=max(10, most),
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            code = -1
    lines = log.read_text(errors="replace").splitlines()
    print("\n".join(lines[-100:]), flush=True)
    failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    return {"exit": code, "last": lines[-1] if lines else "", "failed": failed[:60]}
