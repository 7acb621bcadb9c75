"""Processes: their start and end, torch in them, and how well the recorder itself does."""

from __future__ import annotations

from compdbg.events.base import Event, Where


class ProcessStart(Event, frozen=True):
    """A process began to be recorded. `how` is `run`, `environment`, `fork`, `record`."""

    pid: int
    ppid: int
    argv: list[str]
    executable: str
    python: str
    cwd: str = ""
    host: str = ""
    world_size: int | None = None
    local_rank: int | None = None
    how: str = "run"
    env: dict[str, str] = {}
    """Values of allow-listed variables only."""
    compiled_before: int = 0
    """Frames that Dynamo had compiled before a `record()` block began: they are not in the run."""


class ProcessEnd(Event, frozen=True):
    """The process's own last word, at exit. A missing one alone is no crash (`os._exit`, spawn)."""

    uncaught: str | None = None
    """Type of the exception that ended the program, if one did."""
    message: str = ""
    where: Where | None = None
    """The innermost line of the user's that it came through, else where it was raised."""


class ChildEnd(Event, frozen=True):
    """The supervisor's word on the child that it started: an exit status or a signal."""

    pid: int
    exit_status: int | None = None
    signal: int | None = None
    duration_s: float = 0.0


class ProcessMissed(Event, frozen=True):
    """A Python process that the program started in a way that keeps recording from starting in it."""

    argv: list[str]
    reason: str


class TorchLoaded(Event, frozen=True):
    """torch was imported in this process."""

    torch: str
    triton: str | None = None
    cuda: str | None = None
    device: str = "cpu"
    vllm: str | None = None


class HookState(Event, frozen=True):
    """One hook, at install or later. `state`: `works`, `degraded`, `absent`, `unused`."""

    hook: str
    state: str
    detail: str = ""
    module: str = ""


class HookError(Event, frozen=True):
    """A hook raised. The program went on; what the hook should have recorded is lost."""

    hook: str
    error: str
    traceback: str = ""
    count: int = 1


class EventsLost(Event, frozen=True):
    """Events that could not be written, and why (a full disk, no rights)."""

    count: int
    reason: str
