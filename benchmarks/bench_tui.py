"""The explorer on a log of 1,000,000 events: until its first screen stands, each key, and memory.

The log is of eight ranks, each with thousands of small compiles: phases, passes, match attempts,
guards, tallies. Keys are timed from the press until the screen is drawn again.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from benchmarks.table import show

if TYPE_CHECKING:
    from compdbg.tui.app import Explorer

EVENTS = int(os.environ.get("COMPDBG_BENCH_EVENTS", "1000000"))
RANKS = 8
KEYS = """
    j j pagedown end home f j end enter ] escape g j end enter escape s p c t j end u
    e j pagedown end home enter ] escape v j r h r
"""
NAMES = {"]": "right_square_bracket"}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        os.environ["XDG_CACHE_HOME"] = os.path.join(folder, "cache")
        write(run, EVENTS)
        rows = [_measured(run, "the first time"), _measured(run, "again")]
    show(
        f"The explorer, {EVENTS:,} events",
        (
            "opened",
            "log",
            "first screen s",
            "CPU s",
            "key ms, median",
            "slowest",
            "CPU ms",
            "slowest",
            "explorer MB",
            "worker MB",
        ),
        rows,
    )


def _measured(run: Path, when: str) -> tuple[object, ...]:
    """Measured in a process of its own, whose memory is what it says."""
    code = f"from benchmarks.bench_tui import drive; drive({str(run)!r})"
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True)
    first, cpu, median, slowest, key, busy, busiest, busy_key, own, worker = done.stdout.split()
    size = sum(p.stat().st_size for p in run.glob("*.jsonl")) / 1e6
    slow = f"{slowest} ({key})", busy, f"{busiest} ({busy_key})"
    return when, f"{size:.0f} MB", first, cpu, median, *slow, own, worker


def drive(run: str) -> None:
    asyncio.run(_drive(Path(run)))


async def _drive(run: Path) -> None:
    began, used = time.perf_counter(), time.process_time()
    from compdbg.tui.app import Explorer
    from compdbg.tui.quick import answer_keys_first

    answer_keys_first()
    app = Explorer(run, unicode=True)
    drawn = _Drawn(app)
    taken: list[tuple[float, str]] = []
    busy: list[tuple[float, str]] = []
    async with app.run_test(size=(160, 48)) as pilot:
        while app.session.source is None:  # the screen stands when there are findings on it
            await asyncio.sleep(0.005)
        await drawn.wait()
        first, first_cpu = time.perf_counter() - began, time.process_time() - used
        for key in KEYS.split():
            await app.workers.wait_for_complete()
            await pilot.pause()
            used = time.process_time()
            taken.append((1e3 * await drawn.after(key), key))
            busy.append((1e3 * (time.process_time() - used), key))
        await app.workers.wait_for_complete()
        assert app.main.level.place.name == "home"
        assert app.session.rank == 1
    own, worker = (
        resource.getrusage(who).ru_maxrss / 1024 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    told = [f"{first:.2f} {first_cpu:.2f}"]
    for figures in (sorted(taken), sorted(busy)):
        told.append(f"{figures[len(figures) // 2][0]:.1f} {figures[-1][0]:.1f} {figures[-1][1]}")
    print(*told, f"{own:.0f} {worker:.0f}")


class _Drawn:
    """Knows when the screen was drawn."""

    def __init__(self, app: Explorer) -> None:
        self._app = app
        self._happened = asyncio.Event()
        display = app._display

        def noting(*args: Any) -> None:
            display(*args)
            self._happened.set()

        app._display = noting  # type: ignore[method-assign]

    async def wait(self) -> None:
        self._happened.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._happened.wait(), 1)

    async def after(self, key: str) -> float:
        """Seconds from a key to the next screen; 0 where the key changes nothing."""
        self._happened.clear()
        start = time.perf_counter()
        from textual import events

        self._app.post_message(events.Key(NAMES.get(key, key), key if len(key) == 1 else None))
        try:
            await asyncio.wait_for(self._happened.wait(), 5)
        except TimeoutError:
            return 0.0
        return time.perf_counter() - start


def write(run: Path, count: int) -> None:
    """A run of so many events; what they say is what a serving engine's compiles say."""
    run.mkdir(parents=True)
    said = {"schema": "1.0", "argv": ["serve.py"], "complete": True, "exit_status": 0, "duration_s": 900.0}
    (run / "run.json").write_bytes(msgspec.json.encode(said))
    for rank in range(RANKS):
        with (run / f"host-{rank}.jsonl").open("wb") as log:
            lines = _Lines(rank)
            while lines.seq < count // RANKS:
                log.writelines(lines.compile())


class _Lines:
    """One rank's lines."""

    def __init__(self, rank: int) -> None:
        self.rank, self.seq, self.time, self.number = rank, 0, 1_700_000_000.0, 0
        start = {
            "kind": "process-start",
            "pid": rank,
            "ppid": 1,
            "argv": ["serve.py"],
            "executable": "python",
        }
        self.first = [
            self._line({**start, "python": "3.11"}),
            self._line({"kind": "torch-loaded", "torch": "2.13"}),
        ]

    def _line(self, fields: dict[str, object], parent: int | None = None) -> bytes:
        self.seq += 1
        self.time += 0.0008
        header = {
            "run": "run",
            "process": f"{self.rank}-abc",
            "rank": self.rank,
            "seq": self.seq,
            "time": self.time,
        }
        return msgspec.json.encode({**header, "parent": parent, **fields}) + b"\n"

    def compile(self) -> list[bytes]:
        """One compile: 40 phases, 30 passes, 12 match attempts, its guards and tallies."""
        number, self.number = self.number, self.number + 1
        frame, id = f"/srv/model.py:{10 + number % 900}:forward", f"{number}/0"
        lines, self.first = self.first, []
        lines.append(
            self._line({"kind": "frame-start", "frame": frame, "compile_id": id, "name": "Model.forward"})
        )
        outer = self.seq + 1
        lines.append(self._line({"kind": "span-begin", "name": "compile", "compile_id": id}))
        for n in range(20):
            begin = self.seq + 1
            lines.append(self._line({"kind": "span-begin", "name": f"phase_{n}", "compile_id": id}, outer))
            span = {
                "kind": "span",
                "name": f"phase_{n}",
                "duration_s": 0.0008,
                "compile_id": id,
                "begin": begin,
            }
            lines.append(self._line(span, outer))
        for n in range(30):
            passed = {
                "kind": "pass-run",
                "pass_name": f"pass_{n}",
                "graph": id,
                "index": n,
                "duration_us": 90.5,
            }
            lines.append(self._line({**passed, "changed": n == 7, "compile_id": id}, outer))
        lines += self._fusion(id, outer)
        span = {"kind": "span", "name": "compile", "duration_s": 0.07, "compile_id": id, "begin": outer}
        lines.append(self._line(span))
        guard = {"type": "SHAPE_ENV", "expr": "9 <= L['x'].size()[0]", "source": "L['x']", "kept": False}
        lines.append(self._line({"kind": "guards", "frame": frame, "compile_id": id, "guards": [guard] * 8}))
        lines.append(
            self._line({"kind": "frame-end", "frame": frame, "compile_id": id, "result": "compiled"})
        )
        for calls in (1, 10, 100):
            lines.append(
                self._line({"kind": "frame-calls", "frame": frame, "compile_id": id, "calls": calls})
            )
        return lines

    def _fusion(self, id: str, outer: int) -> list[bytes]:
        pattern = {
            "name": "norm",
            "anchors": ["aten.round.default"],
            "ops": ["demo.norm.default"],
            "nodes": 2,
        }
        applied = {
            "kind": "pattern-pass",
            "pass_id": "p1",
            "pass_name": "NormPass",
            "graph": id,
            "graph_id": self.seq,
        }
        lines = [self._line({**applied, "patterns": [pattern], "attempted": 12, "matched": 0}, outer)]
        where = {"file": "/srv/model.py", "line": 60, "function": "forward"}
        miss = {
            "reason": "arg-mismatch",
            "stage": "second",
            "node": "norm",
            "wanted": "eps=1e-05",
            "found": "eps=1e-06",
            "matched_nodes": 1,
            "pattern_nodes": 2,
            "where": where,
        }
        for n in range(12):
            attempt = {"kind": "match-attempt", "pass_id": "p1", "pass_name": "NormPass", "pattern": "norm"}
            lines.append(
                self._line(
                    {
                        **attempt,
                        "graph": id,
                        "graph_id": self.seq,
                        "anchor": f"round_{n}",
                        "outcome": "missed",
                        "near": True,
                        "miss": miss,
                        "where": where,
                    },
                    outer,
                )
            )
        return lines


if __name__ == "__main__":
    main()
