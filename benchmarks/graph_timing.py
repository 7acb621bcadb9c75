"""Times of short kernels: many launches in one CUDA graph, over inputs that take turns.

Inputs together are larger than the GPU's cache where they are large at all, and each launch has
outputs of its own, so that what is timed reads and writes memory. Where there is no GPU, calls are
timed as they are.
"""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

Call = Callable[..., Any]
TURNS = 600 * 2**20
"""Bytes that inputs which take turns come to, at least: ten times the cache."""
MOST_LAUNCHES = 64


def copy_bandwidth(device: str) -> float:
    """GB/s read and written by a large copy, once clocks have risen: by the quicker of two ways.

    A copy of torch's is a copy of memory to the driver, which in a graph need not be a kernel.
    """
    source = torch.ones(2**29 if device == "cuda" else 2**20, device=device)
    target = torch.empty_like(source)
    until = time.perf_counter() + 0.5
    while device == "cuda" and time.perf_counter() < until:
        target.copy_(source)
        torch.cuda.synchronize()
    ways = (lambda: target.copy_(source), lambda: torch.neg(source, out=target))
    return 2 * nbytes(source) / min(timed_calls(way, [()], 8, device) for way in ways) / 1e3


def turns(make: Callable[[], Sequence[Any]], device: str) -> list[Sequence[Any]]:
    """Sets of arguments that take turns."""
    first = make()
    if device == "cpu":
        return [first]
    count = max(4, min(MOST_LAUNCHES, TURNS // max(1, nbytes(first))))
    return [first, *(make() for _ in range(count - 1))]


def nbytes(values: Any) -> int:
    """Of all tensors in nested sequences, each by its own elements."""
    if isinstance(values, Tensor):
        return values.numel() * values.itemsize
    return sum(map(nbytes, values)) if isinstance(values, (list, tuple)) else 0


def timed_calls(
    call: Call, sets: Sequence[Sequence[Any]], launches: int, device: str, rounds: int = 7
) -> float:
    """Microseconds a call: the best of several replays of a graph of `launches` calls."""
    if device == "cpu":
        call(*sets[0])
        started = time.perf_counter()
        for i in range(2):
            call(*sets[i % len(sets)])
        return (time.perf_counter() - started) / 2 * 1e6
    graph, kept = captured_calls(call, sets, launches)
    for _ in range(2):
        graph.replay()
    found = []
    for _ in range(rounds):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        found.append(start.elapsed_time(end) * 1e3 / launches)
    del graph, kept
    return min(found)


def captured_calls(
    call: Call, sets: Sequence[Sequence[Any]], launches: int
) -> tuple[torch.cuda.CUDAGraph, list[Any]]:
    """A graph of so many calls, with what they gave."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2):
            call(*sets[0])
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    gc.collect()
    gc.disable()  # what is freed during a capture, a module or another graph, breaks it
    try:
        with torch.cuda.graph(graph):
            kept = [call(*sets[i % len(sets)]) for i in range(launches)]
    except BaseException:
        with contextlib.suppress(Exception):
            graph.reset()
        with contextlib.suppress(Exception), torch.cuda.graph(torch.cuda.CUDAGraph()):
            pass  # torch takes a capture that failed for still under way until another succeeds
        raise
    finally:
        gc.enable()
    return graph, kept


def kernel_count(call: Call, arguments: Sequence[Any]) -> int:
    """How many kernels one call launches."""
    from torch.profiler import ProfilerActivity, profile

    call(*arguments)
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as profiled:
        call(*arguments)
        torch.cuda.synchronize()
    on_device = (e for e in profiled.events() if e.device_type == torch.autograd.DeviceType.CUDA)
    return sum(1 for event in on_device if "memset" not in event.name.lower())
