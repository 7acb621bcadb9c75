"""`compdbg run --report`: the report is there when the command has ended, whatever the program did."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from compdbg.record.lines import WARNED
from compdbg.store.embedded import read_report


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "compdbg", "run", *words]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, env={**os.environ}, timeout=120
    )


def test_to_a_named_file(tmp_path: Path) -> None:
    done = run(tmp_path, "-o", "run", "--report=bug.html", "-c", "print('hello'); raise SystemExit(7)")
    assert (done.returncode, done.stdout) == (7, "hello\n")
    assert done.stderr.splitlines()[-1].endswith("report: bug.html")
    assert len(done.stderr.splitlines()) <= 4
    assert read_report(tmp_path / "bug.html").manifest["exit_status"] == 7


def test_without_a_name_it_is_called_as_the_run_and_does_not_take_the_script_for_one(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import sys; print(sys.argv)")
    done = run(tmp_path, "-o", "run", "--report", "script.py", "--report")
    assert done.stdout == "['script.py', '--report']\n"
    assert (tmp_path / "run.html").is_file()


def test_a_file_that_can_not_be_written_changes_nothing_of_the_program(tmp_path: Path) -> None:
    done = run(tmp_path, "-o", "run", "--report=/proc/nowhere/bug.html", "-c", "raise SystemExit(3)")
    assert done.returncode == 3
    assert "no report: /proc/nowhere/bug.html: No such file or directory" in done.stderr


def test_it_is_told_where_the_recorder_has_warned_already(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(WARNED, "1")
    done = run(tmp_path, "-o", "run", "--report=/proc/nowhere/bug.html", "-c", "pass")
    assert "no report: /proc/nowhere/bug.html: No such file or directory" in done.stderr


def test_quiet_stays_quiet(tmp_path: Path) -> None:
    done = run(tmp_path, "-o", "run", "--quiet", "--report=bug.html", "-c", "pass")
    assert done.stderr == ""
    assert (tmp_path / "bug.html").is_file()
