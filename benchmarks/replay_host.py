"""What one replayed piece costs the host, beside its graph's bare replay."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import torch

from benchmarks.decode_step import Bench, host_microseconds
from compdbg.compiler.captured_size import CapturedSize
from compdbg.compiler.config import CUDAGraphMode
from compdbg.compiler.cuda_graph import CUDAGraphWrapper
from compdbg.compiler.forward_context import BatchDescriptor, ForwardContext, pushed

Row = dict[str, Any]


def host_times(bench: Bench) -> Row:
    """Microseconds of the host for a middle piece at batch 1, and for whole steps."""
    slot = next(slot for slot in captured_sizes(1) if slot.context.runtime_mode is CUDAGraphMode.PIECEWISE)
    pieces = [o for o in gc.get_objects() if type(o) is CUDAGraphWrapper and slot.context.key in o.entries]
    piece = pieces[len(pieces) // 2]
    args = arguments_of(piece, lambda: without_plans(bench.ours(1, "PIECEWISE")))
    captured: Any = piece.entries[slot.context.key].captured
    found: Row = {"pieces": len(pieces), "with a plan": slot._plan is not None}
    found["bare replay"] = host_microseconds(
        captured.graph.replay if "graph" in vars(captured) else captured.replay
    )
    with pushed(slot.context):
        found["piece"] = host_microseconds(lambda: piece(*args))
    found["ratio"] = found["piece"] / found["bare replay"]
    for mode in ("PIECEWISE", "FULL"):
        found[f"step {mode}"] = host_microseconds(bench.ours(1, mode), burst=3)
    return found


def captured_sizes(size: int) -> list[CapturedSize]:
    """All captures of one size that are alive."""
    return [o for o in gc.get_objects() if type(o) is CapturedSize and o.captured and o.size == size]


def without_plans(step: Callable[[], Any]) -> None:
    """One step at batch 1 that calls piece after piece."""
    plans = [(slot, slot._plan) for slot in captured_sizes(1)]
    try:
        for slot, _ in plans:
            slot._plan = None
        step()
    finally:
        for slot, plan in plans:
            slot._plan = plan


def arguments_of(piece: CUDAGraphWrapper, run: Callable[[], None]) -> tuple[Any, ...]:
    """What `piece` is called with in `run`."""
    seen: list[tuple[Any, ...]] = []
    original = CUDAGraphWrapper.__call__

    def noting(self: CUDAGraphWrapper, *args: Any) -> Any:
        if self is piece:
            seen.append(args)
        return original(self, *args)

    CUDAGraphWrapper.__call__ = noting  # type: ignore[method-assign]
    try:
        run()
    finally:
        CUDAGraphWrapper.__call__ = original  # type: ignore[method-assign]
    return seen[-1]


def tiny_times() -> Row:
    """The same for a graph of one kernel."""
    wrapper = CUDAGraphWrapper(lambda n, x, w: (x + w,), CUDAGraphMode.PIECEWISE, graph="tiny", static=[2])
    context = ForwardContext(batch=BatchDescriptor(1), runtime_mode=CUDAGraphMode.PIECEWISE, key=0)
    args = (1, torch.ones(8, device="cuda"), torch.ones(8, device="cuda"))
    with pushed(context):
        wrapper(*args)
        wrapper(*args)
        wrapped = host_microseconds(lambda: wrapper(*args))
    captured: Any = wrapper.entries[0].captured
    bare = host_microseconds(captured.graph.replay)
    return {"tiny bare replay": bare, "tiny piece": wrapped, "tiny ratio": wrapped / bare}
