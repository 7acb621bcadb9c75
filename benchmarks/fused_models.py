"""One decoder with some fusions on: tokens a second, memory, and its outputs.

A process for each, started by `fused_workers`: it compiles, says so, and measures when it is told to,
so that many compile side by side and each has the GPU to itself while it is timed.

    echo go | python -m benchmarks.fused_models '{"name": "x", "flags": [], "layers": 2, ...}'
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks.graph_timing import captured_calls, timed_calls
from compdbg.compiler import CompilationConfig, set_forward_context, use_config
from fixtures.models import SIZES, CausalLM
from fixtures.models.metadata import BLOCK, metadata_of

Row = dict[str, Any]
FLAGS = (
    "fuse_norm_quant",
    "fuse_act_quant",
    "fuse_attn_quant",
    "fuse_rope_kvcache",
    "enable_qk_norm_rope_fusion",
    "fuse_qkv_projection",
)
CONTEXT = 127
"""Tokens that each sequence has in the cache."""
REPLAYS = 20


def backend_for(device: str) -> str:
    """On a GPU Inductor; where this is only tried, a backend that stops after the passes."""
    if device == "cpu":
        importlib.import_module("tests.compiler.passes_only")
    return "passes-only" if device == "cpu" else "inductor"


class Fused:
    """The decoder with its cache's update in the graph, unsplit, with some fusions on."""

    def __init__(self, plan: Row) -> None:
        self.device = plan["device"]
        shape = SIZES["toy" if plan["small"] else "700m"].with_(layers=plan["layers"], **plan["changes"])
        if plan["small"]:
            shape = shape.with_(width=128, head_dim=32)
        config = CompilationConfig(
            backend=backend_for(self.device),
            splitting_ops=[],
            pass_config=dict.fromkeys(FLAGS, False) | dict.fromkeys(plan["flags"], True),
            disable_cache=True,
        )
        self.each = -(-(CONTEXT + 1) // BLOCK)
        dtype = torch.bfloat16 if self.device == "cuda" else torch.float32
        with use_config(config):
            self.model = CausalLM.random(
                shape, blocks=1 + max(plan["batches"]) * self.each, device=self.device, dtype=dtype
            )
        torch.manual_seed(1)
        for layer in self.model.model.layers:
            layer.self_attn.kv_cache.normal_()
        self.vocab = shape.vocab

    def step(self, n: int, new: int = 1) -> Callable[[], torch.Tensor]:
        """A step of n sequences, with so many new tokens each."""
        cached = CONTEXT + 1 - new
        sequences = [(cached, new, range(1 + i * self.each, 1 + (i + 1) * self.each)) for i in range(n)]
        metadata = metadata_of(sequences, self.each, self.device, uniform_decode=new == 1)
        torch.manual_seed(n)
        ids = torch.randint(0, self.vocab, (n * new,), device=self.device)
        positions = torch.arange(cached, CONTEXT + 1, device=self.device).repeat(n)

        def run() -> torch.Tensor:
            with set_forward_context(metadata, uniform_decode=new == 1):
                return self.model(ids, positions, metadata.slots)

        return run


def measured(plan: Row, fused: Fused) -> Row:
    """Milliseconds of a step in a graph, by batch; memory, where it is wanted. Outputs go to a file."""
    row: Row = {"ms": {}}
    outputs: Row = {}
    for n in plan["batches"]:
        step = fused.step(n)
        outputs[n] = step().cpu()
        row["ms"][n] = timed_calls(step, [()], REPLAYS if fused.device == "cuda" else 1, fused.device) / 1e3
    torch.save(outputs, Path(plan["out"]) / f"{plan['name']}.pt")
    if fused.device == "cuda" and plan["memory"]:
        row["memory"] = memory(fused, max(plan["batches"]))
    return row


def memory(fused: Fused, n: int) -> Row:
    """Bytes: the peak of a step beyond what was there, at decode and prefill, and a capture's own."""
    found: Row = {}
    for new in (1, 16):
        step = fused.step(n, new)
        step()
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        step()
        torch.cuda.synchronize()
        found[f"peak of {n * new} tokens"] = torch.cuda.max_memory_allocated() - before
        torch.cuda.empty_cache()
        before = torch.cuda.memory_reserved()
        kept = captured_calls(step, [()], 1)
        torch.cuda.empty_cache()
        found[f"capture of {n * new} tokens"] = torch.cuda.memory_reserved() - before
        del kept
    return found


def main() -> None:
    plan = json.loads(sys.argv[1])
    torch.set_grad_enabled(False)
    began = time.perf_counter()
    fused = Fused(plan)
    for n in plan["batches"]:
        fused.step(n)()
    seconds = time.perf_counter() - began
    print("READY", flush=True)
    sys.stdin.readline()
    print("RESULT " + json.dumps(measured(plan, fused) | {"compile seconds": seconds}), flush=True)


if __name__ == "__main__":
    main()
