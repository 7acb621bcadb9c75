"""Runs told event by event through the recorder's own writer, on a clock of their own.

What a program would take minutes to do (a slow start, sixteen captures, a wrong batch) is written here
as its hooks would write it, so that a test of the page need not compile anything.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from compdbg.events import Event, Span, SpanBegin, Where
from compdbg.record.lines import Lines
from compdbg.record.manifest import Manifest
from compdbg.record.writer import Writer

BEGAN = 1_790_000_000.0


class Told:
    """A run that is being written: `tell` an event, let time `pass_`, keep a large `text`."""

    def __init__(self, folder: Path, argv: list[str], **start: object) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.now = BEGAN
        self.manifest = Manifest(str(folder), argv, {"source": True})
        self.manifest.write()
        self.lines = Lines(str(folder))
        self.writer = Writer(self.lines)
        described = {
            "pid": 4711, "ppid": 4710, "argv": ["/usr/bin/python3", *argv], "executable": "/usr/bin/python3",
            "python": "3.11.7", "cwd": "/srv/serving", "host": "gpu-box-7", "env": {}, "how": "run",
        }  # fmt: skip
        self.note("process-start", **(described | start))

    def note(self, kind: str, **fields: object) -> int | None:
        with patch("compdbg.record.lines.time.time", lambda: self.now):
            return self.lines.note(kind, **fields)

    def tell(self, event: Event, parent: int | None = None) -> int:
        with patch("compdbg.record.lines.time.time", lambda: self.now):
            seq = self.writer.write(event, parent)
        assert seq is not None
        return seq

    def text(self, text: str) -> str:
        return self.writer.payload(text)

    def wait(self, seconds: float) -> None:
        self.now += seconds

    @contextmanager
    def phase(self, name: str, parent: int | None = None, **more: str) -> Iterator[int]:
        """A phase around what is told inside."""
        began, start = self.tell(SpanBegin(name=name, **more), parent), self.now
        yield began
        self.tell(Span(name=name, duration_s=self.now - start, begin=began, **more), parent)

    def end(self, exit_status: int = 0) -> Path:
        self.note("process-end")
        self.lines.close()
        with patch("compdbg.record.manifest.time.time", lambda: self.now):
            self.manifest.finish(exit_status)
        _dated(self.folder, self.now - BEGAN)
        return self.folder


def _dated(folder: Path, took: float) -> None:
    """The manifest's own times, which do not run on the run's clock."""
    path = folder / "run.json"
    fields = json.loads(path.read_text())
    fields["started"] = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(BEGAN))
    fields["duration_s"] = round(took, 3)
    path.write_text(json.dumps(fields))


def at(file: Path, text: str, function: str = "forward") -> Where:
    """The place of the first line of a file that holds a text."""
    lines = file.read_text().splitlines()
    return Where(str(file), next(n for n, line in enumerate(lines, 1) if text in line), function)
