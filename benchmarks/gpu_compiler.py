"""The compiler on a GPU, all in one run: the capture checks, then times beside torch's own ways.

    python -m benchmarks.gpu_compiler --out results        # about 7 minutes on an H200
    python -m benchmarks.gpu_compiler --device cpu --small --out results

Each section stands alone: one that fails is reported, and the next one runs. What was measured so
far is in `OUT/gpu_compiler.json` after every section.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks.decode_step import Bench, one_graph, relative_error, timed
from benchmarks.decode_ways import Heard, decode
from benchmarks.replay_host import host_times, tiny_times
from benchmarks.sections import Sections, tests_of
from compdbg.compiler import warm_up
from compdbg.events import Capture
from fixtures.models import SIZES, attention
from fixtures.models.metadata import metadata_of

Row = dict[str, Any]


class Run(Sections):
    """The models too, which sections share."""

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__(options, "gpu_compiler")
        self.batches = [1, 3] if self.small else [1, 8, 64, 256]
        self.largest = 8 if self.small else 256
        sizes = [1, 2, 4, 8] if self.small else [1, 2, 4, *range(8, 377, 8)]
        self.captured = sizes
        self.bench = self._bench()
        self.compiled: Any = None
        self._packed: dict[Any, Bench] = {}

    def _bench(self, *, packed: bool = False, **more: Any) -> Bench:
        shape = SIZES["toy" if self.small else "700m"].with_(packed=packed)
        context = 20 if self.small else 127  # with the step's own token a whole number of attention's tiles
        return Bench(shape, self.options.device, max(self.captured), context, self.captured, **more)

    def packed_bench(self, *, fusions: bool = False, tuned: tuple[int, ...] = ()) -> Bench:
        """The model with packed projections: one without fusions, one with them; with sizes of their own."""
        if (fusions, tuned) not in self._packed:
            self._packed[fusions, tuned] = self._bench(packed=True, fusions=fusions, tuned=tuned)
        return self._packed[fusions, tuned]


def kernels(run: Run) -> Row:
    """Attention's kernels against plain PyTorch, which is used from here on unless they agree."""
    try:
        errors = kernel_errors()
    except Exception:
        attention.use_reference()
        raise
    if not max(max(each) for each in errors.values()) < 2e-2:
        attention.use_reference()
    return {"relative_error": errors, "used": attention._kernels().__name__}


def kernel_errors() -> Row:
    query = torch.randn(5, 16, 128, device="cuda", dtype=torch.bfloat16)
    key, value = torch.randn(2, 5, 4, 128, device="cuda", dtype=torch.bfloat16)
    ones = [(i * 9, 1, [1 + 3 * i, 3 + 3 * i, 2 + 3 * i]) for i in range(5)]
    batches = {
        "mixed": metadata_of([(0, 2, [1]), (40, 3, [4, 2, 3])], 4, "cuda"),
        "decode": metadata_of(ones, 4, "cuda", uniform_decode=True),
    }
    errors: Row = {}
    for name, metadata in batches.items():
        found = []
        for use in (attention.reference_attention, attention._kernels()):
            torch.manual_seed(0)
            cache = torch.randn(2, 20, 16, 4, 128, device="cuda", dtype=torch.bfloat16)
            out = torch.empty_like(query)
            use(query, key, value, out, cache, metadata, 0.1)
            found.append((out, cache))
        errors[name] = [relative_error(b, a) for a, b in zip(*found, strict=True)]
    return errors


def capture(run: Run) -> Row:
    """Compile, then capture every size in both modes; where the time goes."""

    bench = run.bench
    began = time.perf_counter()
    bench.ours(max(run.captured), "NONE")()
    compile_seconds = time.perf_counter() - began
    with Heard() as heard:
        began = time.perf_counter()
        warm_up(bench.model.model, bench.batch, attn_metadata=lambda n, uniform: bench.metadata(n))
        seconds = time.perf_counter() - began
    captures = heard.of(Capture)
    of = {mode: [c for c in captures if c.mode == mode] for mode in ("PIECEWISE", "FULL")}
    return {
        "compile_seconds": compile_seconds,
        "warm_up_seconds": seconds,
        "sizes": len(run.captured),
        "failed": [c.error for c in captures if c.error][:5],
        "captures": {mode: len(found) for mode, found in of.items()},
        "capture_seconds": {mode: sum(c.duration_ms for c in found) / 1e3 for mode, found in of.items()},
        "capture_bytes": {mode: sum(c.bytes or 0 for c in found) for mode, found in of.items()},
    }


def host(run: Run) -> Row:
    """Host microseconds of one replayed piece, against the graph's bare replay."""
    return host_times(run.bench) | (tiny_times() if run.options.device == "cuda" else {})


def spent(run: Run) -> Row:
    """GPU microseconds a step by kernel: FULL, PIECEWISE, and one CUDA graph, at the smallest batch."""
    n, steps = run.batches[0], 20
    if run.compiled is None:
        run.compiled = torch.compile(run.bench.plain(), dynamic=True)
    ways = {
        "FULL": run.bench.ours(n, "FULL"),
        "PIECEWISE": run.bench.ours(n, "PIECEWISE"),
        "one CUDA graph": one_graph(run.bench.step(run.compiled, n)),
    }
    if run.options.packed:
        ways["packed FULL"] = run.packed_bench().ours(n, "FULL")
        ways["packed, fusions FULL"] = run.packed_bench(fusions=True).ours(n, "FULL")
    return {name: kernel_times(step, steps) for name, step in ways.items()}


def kernel_times(step: Callable[[], torch.Tensor], steps: int) -> Row:
    step()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(steps):
            step()
        torch.cuda.synchronize()
    found = sorted(profile.key_averages(), key=lambda each: -each.self_device_time_total)
    rows = [
        [each.key[:60], each.count / steps, round(each.self_device_time_total / steps, 1)]
        for each in found
        if each.self_device_time_total
    ]
    return {"all": round(sum(row[2] for row in rows), 1), "kernels": rows[:20]}


def sweep(run: Run) -> Row:
    """Every batch size: is any of ours slower than torch.compile alone?"""
    if run.compiled is None:
        run.compiled = torch.compile(run.bench.plain(), dynamic=True)
    rows: dict[int, Row] = {}
    for n in range(1, run.largest + 1):
        if run.left < 20:
            break
        ways = {
            "torch.compile": run.bench.step(run.compiled, n),
            "FULL": run.bench.ours(n, "FULL"),
            "PIECEWISE": run.bench.ours(n, "PIECEWISE"),
        }
        rows[n] = {name: timed(step, seconds=0.03, rounds=2)["pipelined"] for name, step in ways.items()}
    worst = {
        mode: max((row[mode] / row["torch.compile"], n) for n, row in rows.items())
        for mode in ("FULL", "PIECEWISE")
    }
    slower = {
        mode: [n for n, row in rows.items() if row[mode] > row["torch.compile"]]
        for mode in ("FULL", "PIECEWISE")
    }
    return {"sizes": len(rows), "slower": slower, "worst ratio, size": worst, "rows": rows}


def checks(run: Run) -> Row:
    """The tests marked `gpu`: captures on CUDA graphs, parity of the fixture models in bf16."""
    tests = ["test_capture_*.py", "test_models_parity.py"]
    return tests_of(run, "gpu and not slow", tests, min(run.options.check_seconds, run.left))


def table(results: Row, batches: list[int]) -> str:
    """The decode steps as one table of milliseconds: with a wait after each step, and without."""
    lines = ["| ms a step (latency / pipelined) | " + " | ".join(f"batch {n}" for n in batches) + " |"]
    lines.append("|---" * (len(batches) + 1) + "|")
    for name, row in results.get("decode", {}).items():
        cells = []
        for n in batches:
            cell = row.get(str(n), {}) if isinstance(row, dict) else {}
            good = "latency" in cell
            cells.append(f"{cell['latency']:.3f} / {cell['pipelined']:.3f}" if good else "-")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument(
        "--small", action="store_true", help="a toy, to try this script where there is no GPU"
    )
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--seconds", type=float, default=460, help="all sections together")
    parser.add_argument("--check-seconds", type=float, default=150, help="the tests among them")
    parser.add_argument("--only", nargs="*", help="names of sections")
    parser.add_argument(
        "--packed", action="store_true", help="decode with packed projections too, without and with fusions"
    )
    options = parser.parse_args()
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", tempfile.mkdtemp(prefix="inductor-"))
    torch.set_grad_enabled(False)
    run = Run(options)
    if options.device == "cuda":
        run.section("kernels", kernels)
    run.section("capture", capture, needs=60)
    run.section("host", host, needs=20)
    run.section("decode", decode, needs=60)
    if options.device == "cuda":
        run.section("spent", spent, needs=20)
    run.section("sweep", sweep, needs=40)
    if options.device == "cuda":
        run.section("checks", checks, needs=30)
    print("\n" + json.dumps(run.results.get("host"), indent=1))
    print(f"\n{json.dumps(run.results['machine'])}\n\n{table(run.results, run.batches)}")


if __name__ == "__main__":
    main()
