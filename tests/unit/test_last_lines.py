"""What `run` adds to a program's stderr: at most four lines, in time, whatever happens to them."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from compdbg.cli import last_lines
from compdbg.cli.last_lines import print_last_lines
from compdbg.events import Where
from compdbg.findings.base import Finding
from compdbg.record.manifest import Manifest


@pytest.fixture
def manifest(tmp_path: Path) -> Manifest:
    made = Manifest(str(tmp_path), ["x.py"], {})
    made.write()
    return made


def finding(number: int, severity: str, title: str) -> Finding:
    return Finding(
        code="graph-break",
        severity=severity,
        title=title,
        cause="",
        suggestion="",
        where=Where(f"/elsewhere/m{number}.py", number),
        id=f"F{number}",
    )


def printed(capfd: pytest.CaptureFixture[str]) -> list[str]:
    return capfd.readouterr().err.splitlines()


@pytest.mark.parametrize(("key", "typed"), [("backend", "-cc.backend"), ("enforce_eager", "--enforce-eager")])
def test_an_override_for_a_compiler_that_the_program_does_not_use(
    key: str, typed: str, manifest: Manifest, capfd: pytest.CaptureFixture[str]
) -> None:
    print_last_lines(manifest, named=None, overrides=[key])
    first, _ = printed(capfd)
    assert first == f"compdbg: warning: {typed} changed nothing: the program used no compdbg.compiler"


def test_the_worst_three_and_what_to_type(
    manifest: Manifest, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    found = [finding(1, "error", "one"), *(finding(n, "warning", "more\nlines\x1b[0m") for n in (2, 3, 4))]
    monkeypatch.setattr("compdbg.findings.collect.find_all", lambda run: [*found, finding(5, "info", "x")])
    print_last_lines(manifest, named=None)
    assert printed(capfd) == [
        "compdbg: F1 error: m1.py:1: one",
        "compdbg: F2 warning: m2.py:2: more lines\\x1b[0m",
        "compdbg: F3 warning: m3.py:3: more lines\\x1b[0m",
        "compdbg: 1 error and 3 warnings; next: compdbg explain",
    ]
    assert manifest.fields["findings"] == {"error": 1, "warning": 3, "info": 1}


def test_a_clean_run_is_one_line(manifest: Manifest, capfd: pytest.CaptureFixture[str]) -> None:
    print_last_lines(manifest, named="some/folder")
    (line,) = printed(capfd)
    assert line.startswith("compdbg: torch was not imported; recorded in ")
    assert line.endswith("; next: compdbg show some/folder")


def test_a_run_that_failed_is_not_told_to_have_no_fault(
    manifest: Manifest, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("compdbg.findings.collect.find_all", lambda run: [])
    manifest.finish(exit_status=3)
    print_last_lines(manifest, named="some/folder")
    (line,) = printed(capfd)
    assert line.startswith("compdbg: the program ended with exit status 3; torch was not imported; recorded")


def test_a_log_that_takes_too_long_is_only_named(
    manifest: Manifest, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(last_lines, "_find", lambda *_: time.sleep(30))
    began = time.monotonic()
    print_last_lines(manifest, named=None)
    assert time.monotonic() - began < 15, "the worker would sleep for 30 seconds"
    assert printed(capfd) == [f"compdbg: recorded in {manifest.folder}; next: compdbg explain"]
    assert "findings" not in manifest.fields


@pytest.mark.parametrize(
    "fault", [lambda *_: 1 / 0, lambda *_: os._exit(3), lambda *_: os.kill(os.getpid(), 9)]
)
def test_a_fault_of_ours_is_not_the_users(
    fault: object, manifest: Manifest, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(last_lines, "_find", fault)
    print_last_lines(manifest, named=None)
    assert printed(capfd) == [f"compdbg: recorded in {manifest.folder}; next: compdbg explain"]


def test_nothing_to_write_to(manifest: Manifest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "write", lambda *_: (_ for _ in ()).throw(BrokenPipeError()))
    monkeypatch.setattr(last_lines, "_in_time", lambda *_: None)
    print_last_lines(manifest, named=None)
