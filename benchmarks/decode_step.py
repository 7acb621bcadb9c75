"""One decode step of one model, called in six ways: eager, torch.compile, CUDA graphs, and ours.

Every way shares the weights, the cache and the batch. Ours is `support_torch_compile` on the same
class; `torch.compile` gets the undecorated forward.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from benchmarks.fused_models import FLAGS
from compdbg.compiler import CompilationConfig, set_forward_context, use_config
from fixtures.models import CausalLM, ModelConfig
from fixtures.models.attention import CACHED, OPERATOR
from fixtures.models.metadata import BLOCK, AttentionMetadata, metadata_of

Step = Callable[[], torch.Tensor]


class Plain(nn.Module):
    """The decoder without its decorator."""

    def __init__(self, model: CausalLM) -> None:
        super().__init__()
        self.decoder = model.model

    def forward(self, input_ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        return type(self.decoder).forward_eager(self.decoder, input_ids, positions)


class Bench:
    """The model, its batches, and the context that attention reads."""

    writes_cache = False

    def __init__(
        self,
        shape: ModelConfig,
        device: str,
        largest: int,
        context: int,
        sizes: list[int],
        *,
        fusions: bool = False,
        tuned: tuple[int, ...] = (),
    ) -> None:
        """With `fusions` all of one GPU are on, and the cache's update is in the graph for one of them.

        Sizes that are `tuned` have code of their own.
        """
        self.device = device
        self.context = context
        self.blocks_each = -(-(context + 1) // BLOCK)
        dtype = torch.bfloat16 if device == "cuda" else torch.float32
        self.config = CompilationConfig(
            splitting_ops=[CACHED if fusions else OPERATOR],
            pass_config=dict.fromkeys(FLAGS, fusions),
            cudagraph_mode="FULL_AND_PIECEWISE",
            cudagraph_capture_sizes=sizes,
            compile_sizes=list(tuned),
            tune_single_sizes=True,
            disable_cache=True,
        )
        blocks = 1 + largest * self.blocks_each
        with use_config(self.config):
            self.model = CausalLM.random(shape, blocks=blocks, device=device, dtype=dtype)
        self.vocab = shape.vocab
        self.writes_cache = fusions

    def batch(self, n: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Tokens and positions of n sequences that have `context` tokens cached."""
        ids = torch.randint(0, self.vocab, (n,), device=self.device)
        return ids, torch.full((n,), self.context, device=self.device)

    def metadata(self, n: int) -> AttentionMetadata:
        each = self.blocks_each
        sequences = [(self.context, 1, range(1 + i * each, 1 + (i + 1) * each)) for i in range(n)]
        return metadata_of(sequences, each, self.device, uniform_decode=True)

    def step(self, call: Callable[..., torch.Tensor], n: int, *, uniform: bool = True) -> Step:
        """A step of one way at batch n, to be called again and again."""
        ids, positions = self.batch(n)
        metadata = self.metadata(n)

        def run() -> torch.Tensor:
            with set_forward_context(metadata, uniform_decode=uniform):
                return call(ids, positions)

        return run

    def ours(self, n: int, mode: str) -> Step:
        slots = self.metadata(n).slots if self.writes_cache else None

        def call(input_ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
            return self.model.model(input_ids, positions, slots)

        return self.step(call if self.writes_cache else self.model.model, n, uniform=mode == "FULL")

    def plain(self) -> Plain:
        return Plain(self.model)


class _Replayed:
    def __init__(self, graph: torch.cuda.CUDAGraph, output: torch.Tensor, step: Step) -> None:
        self.graph, self.output, self.reads = graph, output, step

    def __call__(self) -> torch.Tensor:
        self.graph.replay()
        return self.output


def one_graph(step: Step) -> Step:
    """The whole step in one CUDA graph, captured by hand, with inputs that stay where they are.

    The step is kept: it owns the tokens and the metadata that each replay reads.
    """
    for _ in range(3):
        step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = step()

    return _Replayed(graph, output, step)


def timed(step: Step, seconds: float = 0.5, rounds: int = 5) -> dict[str, float]:
    """Milliseconds a step: `latency` with a wait after each, `pipelined` with one at the end."""
    for _ in range(3):
        step()
    wait = torch.cuda.synchronize if torch.cuda.is_available() else lambda: None
    wait()
    started = time.perf_counter()
    step()
    wait()
    once = time.perf_counter() - started
    count = max(2, min(200, int(seconds / 2 / max(once, 1e-6))))
    singles = []
    for _ in range(count):
        started = time.perf_counter()
        step()
        wait()
        singles.append(time.perf_counter() - started)
    runs = []
    for _ in range(rounds):
        started = time.perf_counter()
        for _ in range(max(2, count // rounds)):
            step()
        wait()
        runs.append((time.perf_counter() - started) / max(2, count // rounds))
    return {"latency": statistics.median(singles) * 1e3, "pipelined": min(runs) * 1e3}


def host_microseconds(call: Callable[[], Any], burst: int = 20, rounds: int = 50) -> float:
    """Host time of one call, in bursts short enough that the GPU's queue never makes it wait."""
    wait = torch.cuda.synchronize if torch.cuda.is_available() else lambda: None
    for _ in range(3):
        call()
    found = []
    for _ in range(rounds):
        wait()
        started = time.perf_counter()
        for _ in range(burst):
            call()
        found.append((time.perf_counter() - started) / burst * 1e6)
    return statistics.median(found)


def relative_error(found: torch.Tensor, wanted: torch.Tensor) -> float:
    found, wanted = found.double(), wanted.double()
    return float((found - wanted).norm() / wanted.norm())
