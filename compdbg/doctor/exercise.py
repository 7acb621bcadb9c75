"""Runs the self-check program under `compdbg run` and reads which hooks recorded something."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from compdbg.doctor.environment import Check, State
from compdbg.events import HookError, HookState, TorchLoaded
from compdbg.store.reader import Log, read_log

TIMEOUT_S = 300
ON_A_GPU = frozenset(("cudagraphs",))
"""Hooks of which torch lets nothing be seen without a GPU: it says why it skips a CUDA graph on one only."""


def exercise() -> Iterator[Check]:
    """One check a hook. The program runs in a process of its own, with caches of its own."""
    with tempfile.TemporaryDirectory(prefix="compdbg-doctor-") as scratch:
        folder = Path(scratch) / "run"
        environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": f"{scratch}/cache"}
        command = [sys.executable, "-m", "compdbg", "run", "--quiet", "-o", str(folder)]
        process = subprocess.run(
            [*command, "-m", "compdbg.doctor.program"],
            capture_output=True,
            text=True,
            env=environment,
            check=False,
            timeout=TIMEOUT_S,
            cwd=scratch,
        )
        if process.returncode:
            last = (process.stderr.strip().splitlines() or ["no output"])[-1]
            yield Check(check="self-check program", state="degraded", detail=last, fatal=True)
        if folder.is_dir():
            yield from judge(read_log(folder))


def judge(log: Log) -> Iterator[Check]:
    """The state of each hook, from what it said of itself and what it recorded."""
    from compdbg.hooks.installed import MODULES, ON_REQUEST, load_hook
    from compdbg.hooks.third_party import third_party_names

    states: dict[str, list[HookState]] = defaultdict(list)
    for _, event in log.of(HookState):
        states[event.hook].append(event)
    has_gpu = any(event.device != "cpu" for _, event in log.of(TorchLoaded))
    errors = {event.hook: event.error for _, event in log.of(HookError)}
    for name in MODULES:
        if name in ON_REQUEST and not states[name]:
            option = ON_REQUEST[name].replace("_", "-")
            yield Check(check=f"hook {name}", state="unused", detail=f"only with compdbg run --{option}")
            continue
        hook = load_hook(name)
        recorded = sum(len(log.of(kind)) for kind in hook.proof)
        proves = bool(hook.proof) and (has_gpu or name not in ON_A_GPU)
        yield _hook(name, states[name], errors.get(name), recorded, proves=proves)
    for name in third_party_names():
        yield _hook(name, states[name], errors.get(name), 0, proves=False)


def _hook(name: str, states: list[HookState], error: str | None, recorded: int, *, proves: bool) -> Check:
    check = f"hook {name}"
    if error is not None:
        return Check(check=check, state="degraded", detail=f"raised: {error}")
    bad = [s for s in states if s.state in ("degraded", "absent")]
    if bad:
        worst: State = "absent" if all(s.state == "absent" for s in states) else "degraded"
        return Check(check=check, state=worst, detail="; ".join(s.detail for s in bad))
    if not states:
        return Check(check=check, state="unused", detail="what it watches is not in this environment")
    if proves and not recorded:
        return Check(
            check=check, state="degraded", detail="installed, but it recorded nothing of the self-check"
        )
    return Check(
        check=check,
        state="works",
        detail=f"{recorded} event{'s' * (recorded != 1)}" if proves else "installed",
    )
