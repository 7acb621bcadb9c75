"""What doctor makes of the log of its self-check."""

from __future__ import annotations

from pathlib import Path

from compdbg.doctor.exercise import judge
from compdbg.events import Event, Header, HookState, TorchLoaded
from compdbg.store.reader import Log, Record


def states(device: str) -> dict[str, tuple[str, str]]:
    """State and detail of each hook, where two were installed and none recorded anything."""
    events: list[Event] = [TorchLoaded(torch="2.13.0", device=device)]
    events += [HookState(hook=hook, state="works") for hook in ("cudagraphs", "guards")]
    records = [Record(Header(process="a", seq=n, time=float(n)), e) for n, e in enumerate(events, 1)]
    return {c.check: (c.state, c.detail) for c in judge(Log(Path(), {}, records))}


def test_a_hook_that_recorded_nothing_of_the_self_check_is_degraded() -> None:
    silent = ("degraded", "installed, but it recorded nothing of the self-check")
    on_a_cpu, on_a_gpu = states("cpu"), states("NVIDIA H200")
    assert (on_a_cpu["hook guards"], on_a_gpu["hook guards"]) == (silent, silent)
    assert (on_a_cpu["hook cudagraphs"], on_a_gpu["hook cudagraphs"]) == (("works", "installed"), silent)
    assert on_a_cpu["hook passes"] == ("unused", "what it watches is not in this environment")
