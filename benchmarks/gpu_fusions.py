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
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks import fused_kernels, fused_products, fused_programs, fused_warm_up, fused_workers
from benchmarks.graph_timing import copy_bandwidth
from benchmarks.sections import Sections, tests_of

Row = dict[str, Any]


class Run(Sections):
    """The processes too that work for sections."""

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__(options, "gpu_fusions", goes_on=True)
        self.workers: list[Any] = []
        """Processes that compile ahead, for kernels to be timed."""
        self.models: list[Any] = []
        """Those that have a model each."""


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
    return tests_of(run, "gpu", tests, min(180, run.left - run.reserve))


def kernels(run: Run) -> Row:
    """Times of the kernels, once all that compiles ahead is done."""
    if run.workers:
        count = fused_warm_up.finished(run.workers, min(90, run.left / 3))
        print(f"{count} of {len(run.workers)} have compiled their share ({run.left:.0f} s left)", flush=True)
    return fused_kernels.measure_regions(run)


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
        run.section(name, measure, reserve=reserve)
    for process in [*run.workers, *(worker.process for worker in run.models)]:
        process.kill()
    print(json.dumps(run.results.get("kernels", {}).get("verdict"), indent=1))


if __name__ == "__main__":
    main()
