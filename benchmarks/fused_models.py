"""What fusions are worth in a decoder of 16 layers: tokens a second, memory, and the same results."""

from __future__ import annotations

import importlib
import time
import traceback
from collections.abc import Callable
from typing import Any

import torch

from benchmarks.decode_step import relative_error
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

    def __init__(
        self, run: Any, flags: tuple[str, ...], *, layers: int, largest: int, **changes: Any
    ) -> None:
        self.device = run.options.device
        shape = SIZES["toy" if run.small else "700m"].with_(layers=layers, **changes)
        if run.small:
            shape = shape.with_(width=128, head_dim=32)
        config = CompilationConfig(
            backend=backend_for(self.device),
            splitting_ops=[],
            pass_config=dict.fromkeys(FLAGS, False) | dict.fromkeys(flags, True),
            disable_cache=True,
        )
        self.each = -(-(CONTEXT + 1) // BLOCK)
        dtype = torch.bfloat16 if self.device == "cuda" else torch.float32
        with use_config(config):
            self.model = CausalLM.random(
                shape, blocks=1 + largest * self.each, device=self.device, dtype=dtype
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


def model(run: Any) -> Row:
    """All fusions on against off, in bf16 and FP8, at decode batches; memory of a step and a capture."""
    found: Row = {}
    layers = 2 if run.small else 16
    batches = [1, 3] if run.small else [1, 8, 64, 256]
    for name, quant in (("static fp8", "static_fp8"), ("bf16", ""), ("per-token fp8", "per_token_fp8")):
        if run.left < run.reserve:
            break
        outputs: Row = {}
        table = found.setdefault(name, {})
        for state, flags in (("on", FLAGS), ("off", ())):
            try:
                table[state], outputs[state] = steps(run, flags, layers, batches, quant)
            except Exception as error:
                traceback.print_exc(limit=-6)
                table[state] = {"failed": f"{type(error).__name__}: {error}"[:1000]}
            print(name, state, table[state], flush=True)
            run.keep("model", found)
        if len(outputs) == 2:
            table["gain"], table["error"] = compared(table, outputs)
            print(name, "gain", table["gain"], "relative error", table["error"], flush=True)
        run.keep("model", found)
    return found


def compared(table: Row, outputs: Row) -> tuple[Row, Row]:
    """Tokens a second on over off, less one; and how far the outputs are apart."""
    on, off = table["on"]["tokens a second"], table["off"]["tokens a second"]
    gain = {n: round(on[n] / off[n] - 1, 4) for n in on if n in off}
    error = {n: relative_error(outputs["on"][n], outputs["off"][n]) for n in outputs["on"]}
    return gain, error


def steps(run: Any, flags: tuple[str, ...], layers: int, batches: list[int], quant: str) -> tuple[Row, Row]:
    """Tokens a second by batch, memory, and the outputs."""
    device = run.options.device
    fused = Fused(run, flags, layers=layers, largest=max(batches), quant=quant)
    began = time.perf_counter()
    fused.step(batches[-1])()
    row: Row = {"compile seconds": time.perf_counter() - began, "ms": {}, "tokens a second": {}}
    outputs: Row = {}
    for n in batches:
        step = fused.step(n)
        outputs[n] = step().clone()
        row["ms"][n] = timed_calls(step, [()], REPLAYS if device == "cuda" else 1, device) / 1e3
        row["tokens a second"][n] = n / row["ms"][n] * 1e3
    if device == "cuda":
        row["memory"] = memory(fused, max(batches))
    return row, outputs


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


def alone(run: Any) -> Row:
    """Each fusion by itself, in a decoder of few layers: microseconds a layer against none."""
    found: Row = {}
    layers, few = (3, 1) if run.options.device == "cuda" and not run.small else (2, 1)
    batches = [3] if run.small else [1, 64]
    plans = {"static fp8": {"quant": "static_fp8"}, "bf16, norms of heads": {"qk_norm": True}}
    of = {"static fp8": (0, 1, 2, 3, 5), "bf16, norms of heads": (0, 3, 4, 5)}
    for name, changes in plans.items():
        table = found.setdefault(name, {})
        for flags in [(), *((FLAGS[i],) for i in of[name])]:
            if run.left < run.reserve:
                break
            word = flags[0] if flags else "none"
            try:
                table[word] = layer_times(run, flags, layers, few, batches, changes)
            except Exception as error:
                traceback.print_exc(limit=-6)
                table[word] = {"failed": f"{type(error).__name__}: {error}"[:600]}
            print(name, word, table[word], flush=True)
            run.keep("alone", found)
    return found


def layer_times(
    run: Any, flags: tuple[str, ...], layers: int, few: int, batches: list[int], changes: Row
) -> Row:
    """Microseconds of a step of so many layers, by batch."""
    device = run.options.device
    fused = Fused(run, flags, layers=layers, largest=max(batches), **changes)
    found: Row = {}
    for n in batches:
        step = fused.step(n)
        step()
        found[str(n)] = timed_calls(step, [()], REPLAYS if device == "cuda" else 1, device)
    return found


def products(run: Any) -> Row:
    """Products in FP8 beside bf16's, at the model's shapes: microseconds, and how far from float64."""
    device, found = run.options.device, {}
    shape = SIZES["toy" if run.small else "700m"]
    widths = [(shape.width, shape.width), (shape.ffn, shape.width), (shape.width, shape.ffn)]
    for n in [3] if run.small else [1, 8, 64, 256]:
        for inputs, outputs in widths:
            x = torch.randn(n, inputs, device=device)
            weight = torch.randn(outputs, inputs, device=device) / inputs**0.5
            found[f"{n}x{inputs}x{outputs}"] = product_times(x, weight, device)
            print(n, inputs, outputs, found[f"{n}x{inputs}x{outputs}"], flush=True)
            run.keep("products", found)
    return found


def product_times(x: torch.Tensor, weight: torch.Tensor, device: str) -> Row:
    from compdbg.compiler.ops.quant import quantize_per_token

    to = torch.float8_e4m3fn
    (a, by), (b, weight_by) = quantize_per_token(x, to), quantize_per_token(weight, to)
    right = (a.double() * by.double()) @ (b.double() * weight_by.double()).t()
    low = x.to(torch.bfloat16), weight.to(torch.bfloat16).t()

    def ours(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return torch.ops.fixtures.scaled_mm(x, weight, by, weight_by, 0, torch.bfloat16)

    copies = [(a, b.clone()) for _ in range(20)]  # together more than the cache holds
    plain = [(low[0], low[1].clone()) for _ in range(20)]
    return {
        "fp8": timed_calls(ours, copies, 40, device),
        "bf16": timed_calls(torch.mm, plain, 40, device),
        "error": relative_error(ours(a, b), right),
    }
