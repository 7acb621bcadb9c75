"""A decode step in all ways, in one table; with `--packed`, of the packed model first.

All ways are made ready, and then timed in turns: what disturbs the machine for a second or two
disturbs one turn of some, and the median of the turns is kept.

Of the packed model with fusions, attention splits the graph where the cache has been written already:
norms take their residuals in, and rotary positions go with the update of the cache. Quantisation and
what takes that in need another model.
"""

from __future__ import annotations

import statistics
import time
import traceback
from collections.abc import Callable
from typing import Any

import torch

from benchmarks.decode_step import Bench, Step, one_graph, relative_error, timed
from compdbg import probe

Row = dict[str, Any]
Ways = dict[str, tuple[Bench, Callable[[int], Step]]]
TURNS = 7
Steps = dict[tuple[str, int], Step]
RESERVE = 45
"""Seconds that are left to the sections after this."""


class Heard:
    """What is told while something runs."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def __enter__(self) -> Heard:
        probe.set_sink(self)
        return self

    def __exit__(self, *raised: object) -> None:
        probe.set_sink(None)

    def write(self, event: Any, parent: int | None) -> int:
        self.events.append(event)
        return len(self.events)

    def payload(self, text: str) -> str:
        return ""

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


def decode(run: Any) -> Row:
    """Milliseconds a decode step, all ways, in one run."""
    torch._dynamo.reset()
    torch._dynamo.config.recompile_limit = 64
    found: Row = {}
    steps: Steps = {}
    ways = {**(packed_ways(run) if run.options.packed else {}), **apart_ways(run)}
    for name, (bench, make) in ways.items():
        if run.options.device != "cuda" and "CUDA" in name:
            continue
        for n in bench.config.compile_sizes or run.batches:
            if run.left < RESERVE:
                row: Row = {"skipped": "no time left"}
            else:
                row, step = made(bench, make, n)
                steps |= {} if step is None else {(name, n): step}
            found.setdefault(name, {})[str(n)] = row
            print(f"{name:>38} batch {n:>3}: {row}", flush=True)
    for (name, n), times in in_turns(run, steps).items():
        found[name][str(n)] |= times
    return found


def in_turns(run: Any, steps: Steps) -> dict[tuple[str, int], Row]:
    """Each step a while, turn after turn while there is time: medians over the turns, and how far they go."""
    turns: dict[tuple[str, int], list[dict[str, float]]] = {key: [] for key in steps}
    for _ in range(TURNS):
        for key, step in steps.items():
            if run.left > RESERVE - 15:
                turns[key].append(timed(step, seconds=0.12, rounds=2))
    return {key: over_turns(times) for key, times in turns.items() if times}


def over_turns(times: list[dict[str, float]]) -> Row:
    pipelined = [each["pipelined"] for each in times]
    return {
        "latency": statistics.median(each["latency"] for each in times),
        "pipelined": statistics.median(pipelined),
        "least": min(pipelined),
        "most": max(pipelined),
        "turns": len(times),
    }


def apart_ways(run: Any) -> Ways:
    bench = run.bench
    plain = bench.plain()
    run.compiled = torch.compile(plain, dynamic=True)
    overhead = torch.compile(bench.plain(), dynamic=True, mode="reduce-overhead")
    return {
        "ours FULL": (bench, lambda n: bench.ours(n, "FULL")),
        "ours PIECEWISE": (bench, lambda n: bench.ours(n, "PIECEWISE")),
        "eager": (bench, lambda n: bench.step(plain, n)),
        "torch.compile": (bench, lambda n: bench.step(run.compiled, n)),
        "one CUDA graph": (bench, lambda n: one_graph(bench.step(run.compiled, n))),
        "reduce-overhead": (bench, lambda n: bench.step(overhead, n)),
    }


def packed_ways(run: Any) -> Ways:
    """What matters most is compiled first: the time may not do for all."""
    bench, fused, tuned = run.packed_bench(), run.packed_bench(fusions=True), run.packed_bench(tuned=(1,))
    compiled = torch.compile(bench.plain(), dynamic=True)
    return {
        "packed: ours FULL": (bench, lambda n: bench.ours(n, "FULL")),
        "packed: ours PIECEWISE": (bench, lambda n: bench.ours(n, "PIECEWISE")),
        "packed: one CUDA graph": (bench, lambda n: one_graph(bench.step(compiled, n))),
        "packed, fusions: ours FULL": (fused, lambda n: fused.ours(n, "FULL")),
        "packed, fusions: ours PIECEWISE": (fused, lambda n: fused.ours(n, "PIECEWISE")),
        "packed, batch 1 tuned: ours FULL": (tuned, lambda n: tuned.ours(n, "FULL")),
        "packed, batch 1 tuned: ours PIECEWISE": (tuned, lambda n: tuned.ours(n, "PIECEWISE")),
        "packed: torch.compile": (bench, lambda n: bench.step(compiled, n)),
    }


def made(bench: Bench, make: Callable[[int], Step], n: int) -> tuple[Row, Step | None]:
    """One way at one batch, compiled and captured, and how far it is from eager on the same tokens."""
    began = time.perf_counter()
    step = None
    try:
        torch.manual_seed(n)
        step = make(n)
        for _ in range(3):
            step()
        torch.manual_seed(n)
        wanted = bench.step(bench.plain(), n)()
        row: Row = {"error": relative_error(step(), wanted)}
    except Exception as error:
        traceback.print_exc(limit=-4)
        row, step = {"failed": f"{type(error).__name__}: {error}"[:500]}, None
    row["seconds"] = round(time.perf_counter() - began, 1)
    return row, step
