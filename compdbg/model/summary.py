"""What a run was: its command, its end, its versions and its processes."""

from __future__ import annotations

from msgspec import Struct

from compdbg.events import ChildEnd, ProcessStart, TorchLoaded
from compdbg.model.caches import is_cold
from compdbg.model.ending import Uncaught, find_uncaught
from compdbg.store.reader import Log


class Summary(Struct, frozen=True, kw_only=True):
    """The `run` object of every JSON answer."""

    path: str
    argv: list[str]
    exit_status: int | None
    signal: int | None
    started: str | None
    duration_s: float | None
    torch: str | None
    triton: str | None
    vllm: str | None
    python: str | None
    device: str | None
    processes: int
    ranks: list[int]
    cold: bool | None
    complete: bool
    uncaught: Uncaught | None = None
    """The exception that the program failed with."""


def summarise(log: Log) -> Summary:
    manifest = log.manifest
    starts = log.of(ProcessStart)
    torch = next((event for _, event in log.of(TorchLoaded)), None)
    end = next((event for _, event in reversed(log.of(ChildEnd))), None)
    exit_status = manifest.get("exit_status", end.exit_status if end else None)
    signal = manifest.get("signal", end.signal if end else None)
    return Summary(
        path=str(log.folder),
        argv=list(manifest.get("argv") or (starts[0][1].argv if starts else [])),
        exit_status=exit_status,
        signal=signal,
        started=manifest.get("started"),
        duration_s=manifest.get("duration_s"),
        torch=torch.torch if torch else None,
        triton=torch.triton if torch else None,
        vllm=torch.vllm if torch else None,
        python=starts[0][1].python if starts else None,
        device=torch.device if torch else None,
        processes=len(starts),
        ranks=sorted({h.rank for h, _ in starts if h.rank is not None}),
        cold=is_cold(log),
        complete=bool(manifest.get("complete")),
        uncaught=find_uncaught(log, exit_status, signal),
    )
