"""What the fixture `compdbg` is: records blocks, checks them, and tells what it saw when a test fails."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import compdbg
from compdbg.record.inprocess import Recording, record

MAX_FINDINGS = 5


class Recorder:
    """`record()` and `load()` as `compdbg` has them; each run is checked against `files`."""

    def __init__(self, folder: Path, files: list[Path]) -> None:
        self.folder = folder
        self.files = files
        self.recordings: list[Recording] = []

    @contextmanager
    def record(self, path: str | Path | None = None, **options: Any) -> Iterator[Recording]:
        """`compdbg.record()`, to a folder of the test's own; the options are the same."""
        target = self.folder / f"run{len(self.recordings) + 1}" if path is None else path
        with record(target, **options) as recording:
            self.recordings.append(recording)
            yield recording
        for file in self.files:
            self.check(recording, file)

    def load(self, path: str | Path | None = None) -> Any:
        """`compdbg.load()`: a run that was recorded before, to compare with."""
        return compdbg.load(path)

    def check(self, run: Any, expect: str | Path) -> None:
        """Fail the test unless a run is as a file of expectations says."""
        __tracebackhide__ = True
        from compdbg.expect.file import NoExpectations, WrongExpectation, read_expectations
        from compdbg.expect.judge import failed, judge
        from compdbg.findings.collect import find_all
        from compdbg.views.check import sentence, title

        loaded = run.load() if isinstance(run, Recording) else run
        wrong = None
        try:
            expected = read_expectations(Path(expect))
        except (NoExpectations, WrongExpectation) as error:
            wrong = f"compdbg: {error}"
        if wrong:  # outside the except, or pytest shows what was caught too
            pytest.fail(wrong, pytrace=False)
        verdicts = judge(loaded, find_all(loaded), expected)
        if failed(verdicts):
            lines = [title(verdicts, os.path.basename(expect))]
            lines += [f"  {sentence(v)}" for v in verdicts if v.status != "pass"]
            pytest.fail("\n".join(lines), pytrace=False)

    def told(self) -> Iterator[str]:
        """A text for each run: the verdict, what became of each fusion, the worst findings."""
        for recording in self.recordings:
            try:
                yield "\n".join(_told(recording))
            except Exception as error:  # the test's own failure is what must be seen
                yield f"{recording.path} can't be read: {type(error).__name__}: {error}"


def _told(recording: Recording) -> Iterator[str]:
    from compdbg.findings.collect import find_all
    from compdbg.views.base import Source
    from compdbg.views.places import place
    from compdbg.views.summary import verdict

    run = recording.load()
    findings = find_all(run)
    yield f"{recording.path}: {verdict(Source(run, findings))}"
    for whole in run.fusion.passes:
        if whole.custom:
            yield f"  {repr(whole).strip('<>')}"
    for finding in [f for f in findings if f.severity != "info"][:MAX_FINDINGS]:
        where = f"{place(finding.where)}: " if finding.where is not None else ""
        what = f"{finding.severity} {finding.code} {finding.fingerprint}"
        yield f"  {finding.id} {what}: {where}{finding.title}"
