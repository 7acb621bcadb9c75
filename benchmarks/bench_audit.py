"""What the dropped-guard audit costs, side by side in one process: per call, per audit, per compile.

Two copies of a model are called in turns: one was compiled before the recording began, with its
guards dropped, the other under it. The backend is `eager`, so that the frame is as short as a frame
can be: shares of a real one are smaller.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

import compdbg
from compdbg.hooks.frame_calls import tell_all

SIZES = (30, 300, 3000)
AROUND, PER_LAYER = 27, 14
"""Guards of the model itself, and of each of its layers."""
ROUNDS = 40
SOURCE = """
class {name}(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(layers))
        self.gains = [2] * layers
        self.scale = 1.0

    def forward(self, x):
        for layer, gain in zip(self.layers, self.gains):
            x = layer(x) * gain
        return x * self.scale
"""
Step = Callable[[torch.Tensor], torch.Tensor]


def drop_all(guards: Any) -> list[bool]:
    return [False] * len(guards)


def model(guards: int, name: str) -> nn.Module:
    """A class of its own: entries of one code object would serve each other's calls."""
    scope: dict[str, Any] = {"nn": nn, "__name__": name}
    exec(SOURCE.format(name=name), scope)
    net: nn.Module = scope[name](max(1, (guards - AROUND) // PER_LAYER))
    return net


def compiled(net: nn.Module, x: torch.Tensor) -> tuple[Step, float]:
    """The compiled model and the CPU seconds that its first call took."""
    step = torch.compile(net, backend="eager", options={"guard_filter_fn": drop_all})
    start = time.process_time()
    step(x)
    return step, time.process_time() - start


def in_turns(steps: list[Step], x: torch.Tensor) -> list[float]:
    """Microseconds a call of each, the best of several rounds that they take in turns."""
    calls = 1
    while _seconds(steps[0], x, calls) < 0.01:
        calls *= 2
    best = [float("inf")] * len(steps)
    for _ in range(ROUNDS):
        for i, step in enumerate(steps):
            best[i] = min(best[i], _seconds(step, x, calls) / calls)
    return [seconds * 1e6 for seconds in best]


def _seconds(step: Step, x: torch.Tensor, calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        step(x)
    return time.perf_counter() - start


def measured(guards: int, audit: str, violate: bool = False) -> dict[str, float]:
    """A model with recording against one without; with `violate` one dropped guard is false throughout."""
    torch._dynamo.reset()
    x = torch.ones(2, 4)
    alone, alone_s = compiled(model(guards, "Alone"), x)
    with tempfile.TemporaryDirectory() as folder, compdbg.record(Path(folder) / "run", audit=audit) as run:
        net = model(guards, "Recorded")
        recorded, recorded_s = compiled(net, x)
        if violate:
            net.scale = 2.0
        for _ in range(120):
            recorded(x)
        without, with_us = in_turns([alone, recorded], x)
        tell_all()
        (entry,) = run.load().entries
    return {
        "guards": len(entry.guards),
        "alone": without,
        "more": with_us - without,
        "audit": 1e6 * entry.seconds / entry.checked if entry.checked else 0.0,
        "alone_s": alone_s,
        "recorded_s": recorded_s,
    }


def main() -> None:
    torch.set_num_threads(1)
    measured(30, "all")
    titles = ("guards", "a call", "counted", "budget", "all", "one audit", "one false", "compile", "recorded")
    print("".join(f"{title:>15}" for title in titles))
    with torch.no_grad():
        for guards in SIZES:
            off, budget, every = (measured(guards, mode) for mode in ("off", "budget", "all"))
            false = measured(guards, "all", violate=True)
            cells = (
                f"{every['guards']:.0f}",
                f"{every['alone']:.1f} µs",
                *(f"{found['more']:+.2f} µs" for found in (off, budget, every)),
                f"{every['audit']:.1f} µs",
                f"{false['audit']:.1f} µs",
                f"{off['alone_s'] * 1e3:.0f} ms",
                f"{every['recorded_s'] * 1e3:.0f} ms",
            )
            print("".join(f"{cell:>15}" for cell in cells))


if __name__ == "__main__":
    main()
