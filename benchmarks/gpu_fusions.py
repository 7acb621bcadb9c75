"""Fusions and their kernels on a GPU: right, fast, and what they are worth in a model.

    python -m benchmarks.gpu_fusions --out results        # about 9 minutes on an H200
    python -m benchmarks.gpu_fusions --device cpu --small --out results

Each section stands alone: one that fails is reported, and the next one runs. What was measured so
far is in `OUT/gpu_fusions.json` after every section.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks import fused_kernels, fused_products, fused_programs, fused_warm_up, fused_workers
from benchmarks.gpu_compiler import machine
from benchmarks.graph_timing import copy_bandwidth

ROOT = Path(__file__).parent.parent
Row = dict[str, Any]


class Run:
    """What all sections share: the options, the deadline, the results so far."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.small = options.small
        self.started = time.perf_counter()
        self.path = options.out / "gpu_fusions.json"
        earlier = json.loads(self.path.read_text()) if self.path.is_file() else {}
        self.results: Row = {**earlier, "machine": machine(options.device)}
        self.workers: list[Any] = []
        """Processes that compile ahead, for kernels to be timed."""
        self.models: list[Any] = []
        """Those that have a model each."""
        self.reserve = 0.0
        """Seconds that are to be left to later sections."""

    @property
    def left(self) -> float:
        return float(self.options.seconds - (time.perf_counter() - self.started))

    def keep(self, name: str, found: Any) -> None:
        self.results[name] = found
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(self.results, indent=1, default=str) + "\n")

    def section(self, name: str, measure: Callable[[Run], Any], reserve: float) -> None:
        """Run one section, if it was asked for; keep what it gives, or why it failed."""
        if self.options.only and name not in self.options.only:
            return
        self.reserve = reserve
        if self.left < max(reserve, 5):
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
        print(f"--- {name}: {time.perf_counter() - began:.0f} s", flush=True)


def ahead(run: Run) -> Row:
    """Start to compile what is timed later, beside what is not timed."""
    run.models = fused_workers.started(run)
    run.workers = fused_warm_up.started() if run.options.device == "cuda" else []
    return {"processes": len(run.workers) + len(run.models)}


def model(run: Run) -> Row:
    """All fusions on against off, and each alone."""
    return fused_workers.measured(run, run.models or fused_workers.started(run))


def copy(run: Run) -> Row:
    """Bytes read and written by a large copy, the measure of the rest."""
    found = {"gbps": copy_bandwidth(run.options.device)}
    print(found, flush=True)
    return found


def checks(run: Run) -> Row:
    """The tests marked `gpu` of the kernels: against float64, also slow ones."""
    tests = ["test_fused_kernels.py", "test_fusion_proof.py"]
    return tests_of("gpu", "gpu", tests, run)


def kernels(run: Run) -> Row:
    """Times of the kernels, once all that compiles ahead is done."""
    if run.workers:
        count = fused_warm_up.finished(run.workers, min(90, run.left / 3))
        print(f"{count} of {len(run.workers)} have compiled their share ({run.left:.0f} s left)", flush=True)
    return fused_kernels.measure_regions(run)


def tests_of(name: str, marks: str, tests: list[str], run: Run) -> Row:
    command = [
        sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "addopts=", "-W", "ignore",
        "-o", "filterwarnings=", "-m", marks, "--tb=short", "--maxfail=20", "--durations=5",
        *(str(ROOT / "tests/compiler" / test) for test in tests),
    ]  # fmt: skip
    log = run.options.out / f"{name}_checks.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as written:
        limit = max(10, min(180, run.left - run.reserve))
        try:
            code = subprocess.run(
                command, cwd=ROOT, stdout=written, stderr=subprocess.STDOUT, timeout=limit, check=False
            ).returncode
        except subprocess.TimeoutExpired:
            code = -1
    lines = log.read_text(errors="replace").splitlines()
    print("\n".join(lines[-80:]), flush=True)
    failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    return {"exit": code, "last": lines[-1] if lines else "", "failed": failed[:40]}


SECTIONS: dict[str, tuple[Callable[[Run], Any], float]] = {
    "copy": (copy, 0),
    "ahead": (ahead, 0),
    "model": (model, 240),
    "kernels": (kernels, 150),
    "products": (fused_products.products, 140),
    "attention": (fused_kernels.attention, 130),
    "layouts": (fused_kernels.layouts, 120),
    "program": (fused_programs.programs, 100),
    "checks": (checks, 0),
}
"""What each section runs, and the seconds that it leaves to those after it."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--small", action="store_true", help="toys, to try this where there is no GPU")
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--seconds", type=float, default=560, help="all sections together")
    parser.add_argument("--only", nargs="*", help="names of sections")
    options = parser.parse_args()
    options.out = options.out.resolve()
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", tempfile.mkdtemp(prefix="inductor-"))
    torch.set_grad_enabled(False)
    run = Run(options)
    for name, (measure, reserve) in SECTIONS.items():
        run.section(name, measure, reserve)
    for process in [*run.workers, *(worker.process for worker in run.models)]:
        process.kill()
    print(json.dumps(run.results.get("kernels", {}).get("verdict"), indent=1))


if __name__ == "__main__":
    main()
