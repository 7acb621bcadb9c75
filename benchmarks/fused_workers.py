"""What fusions are worth in a decoder of 16 layers: processes that compile side by side, timed in turns."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import torch

from benchmarks.decode_step import relative_error
from benchmarks.fused_models import FLAGS

ROOT = Path(__file__).parent.parent
Row = dict[str, Any]
QUANTS = {"fp8": {"quant": "static_fp8"}, "bf16": {}, "per-token": {"quant": "per_token_fp8"}}
QK_NORM = {"qk_norm": True}
ALONE = {
    "fp8": (
        "fuse_norm_quant",
        "fuse_act_quant",
        "fuse_attn_quant",
        "fuse_rope_kvcache",
        "fuse_qkv_projection",
    ),
    "qk": ("fuse_norm_quant", "fuse_rope_kvcache", "enable_qk_norm_rope_fusion", "fuse_qkv_projection"),
}


class Worker:
    """A process that compiles one model, and the lines that it has said."""

    def __init__(self, plan: Row) -> None:
        self.plan = plan
        self.lines: queue.Queue[str] = queue.Queue()
        out = Path(plan["out"])
        out.mkdir(parents=True, exist_ok=True)
        self.log = out / f"{plan['name']}.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.fused_models", json.dumps(plan)],
                cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
                env={**os.environ, "TORCHINDUCTOR_COMPILE_THREADS": "2"},
            )  # fmt: skip
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self.process.stdout or ():
            self.lines.put(line)
        self.lines.put("")

    def said(self, word: str, seconds: float) -> str:
        """The rest of the line that starts with a word; an error where it does not come."""
        until = time.perf_counter() + seconds
        while True:
            try:
                line = self.lines.get(timeout=max(0.1, until - time.perf_counter()))
            except queue.Empty:
                raise TimeoutError(f"{self.plan['name']}: no {word} in {seconds:.0f} s") from None
            if line.startswith(word):
                return line.removeprefix(word).strip()
            if not line:
                tail = self.log.read_text(errors="replace")[-1500:]
                raise RuntimeError(f"{self.plan['name']} ended: {tail}")

    def measured(self, seconds: float) -> Row:
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        row: Row = json.loads(self.said("RESULT", seconds))
        return row


def plans(device: str, small: bool, out: Path) -> list[Row]:
    """The model with all fusions and with none; then, in a few layers, with each alone."""
    common = {"device": device, "small": small, "out": str(out / "models")}
    whole = {"layers": 2 if small else 16, "batches": [1, 3] if small else [1, 8, 64, 256], "memory": True}
    few = {"layers": 2 if small else 4, "batches": [1, 3] if small else [1, 64], "memory": False}
    found = []
    for name, changes in list(QUANTS.items())[: 1 if small else 3]:
        for state, flags in (("on", FLAGS), ("off", ())):
            found.append({"name": f"{name} {state}", "flags": flags, "changes": changes, **whole, **common})
    for name, flags in ALONE.items():
        changes = QUANTS["fp8"] if name == "fp8" else QK_NORM
        for flag in ("none", *flags[: 1 if small else None]):
            own = [] if flag == "none" else [flag]
            found.append({"name": f"{name} alone {flag}", "flags": own, "changes": changes, **few, **common})
    return found


def started(run: Any) -> list[Worker]:
    return [Worker(plan) for plan in plans(run.options.device, run.small, run.options.out)]


def measured(run: Any, workers: list[Worker]) -> Row:
    """Each in its turn, once all have compiled or time is up."""
    found: Row = {}
    until = time.perf_counter() + max(20, run.left - run.reserve)
    ready = []
    for worker in workers:
        try:
            worker.said("READY", until - time.perf_counter())
            ready.append(worker)
        except Exception as error:
            found[worker.plan["name"]] = {"failed": str(error)[-1500:]}
            print(worker.plan["name"], "FAILED", str(error)[-700:], flush=True)
    print(f"{len(ready)} of {len(workers)} compiled ({run.left:.0f} s left)", flush=True)
    for worker in ready:
        name = worker.plan["name"]
        try:
            found[name] = worker.measured(40)
        except Exception as error:
            found[name] = {"failed": str(error)[-1500:]}
        print(name, json.dumps(found[name])[:900], flush=True)
        worker.process.kill()
        run.keep("model", found)
    found["gains"] = gains(found, run.options.out / "models")
    print(json.dumps(found["gains"], indent=1), flush=True)
    return found


def gains(found: Row, out: Path) -> Row:
    """Tokens a second on over off, less one; how far outputs are apart; what each alone takes or saves."""
    rows: Row = {}
    for name in QUANTS:
        on, off = (found.get(f"{name} {state}", {}).get("ms") for state in ("on", "off"))
        if on and off:
            outputs = [torch.load(out / f"{name} {state}.pt") for state in ("on", "off")]
            rows[name] = {
                "gain": {n: round(off[n] / on[n] - 1, 4) for n in on},
                "error": {n: relative_error(*(some[n] for some in outputs)) for n in outputs[0]},
            }
    for name, flags in ALONE.items():
        none = found.get(f"{name} alone none", {}).get("ms")
        for flag in flags if none else ():
            ms = found.get(f"{name} alone {flag}", {}).get("ms")
            if ms:
                rows[f"{name} {flag}"] = {
                    n: f"{(ms[n] - none[n]) * 1e3:+.1f} of {none[n] * 1e3:.1f} us" for n in ms
                }
    return rows
