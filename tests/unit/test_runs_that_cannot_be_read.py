"""Run folders that are gone, cut, or that one has no right to read: a line for the user, and no traceback."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from compdbg.cli.main import main
from compdbg.findings.collect import find_all
from compdbg.model.run import load
from tests.tui.damage import cut, emptied, log_of, without_rights
from tests.tui.runs import Builder, everything

DENIED = "can't be read: Permission denied"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return everything(tmp_path / "run")


@pytest.fixture
def commands(run: Path, tmp_path: Path) -> Callable[[Path], list[list[str]]]:
    """Every command that reads a run, with the run as each of its runs; all of them ran once before."""
    expected = tmp_path / "expected.toml"
    expected.write_text("[guards]\nviolations = 0\n")
    other = everything(tmp_path / "other")

    def of(folder: Path) -> list[list[str]]:
        name = str(folder)
        return [
            ["show", name], ["show", name, "events"], ["explain", name], ["report", name, "-o-"],
            ["report", name, "--markdown"], ["diff", name, str(other)], ["diff", str(other), name],
            ["check", name, "--expect", str(expected)], ["check", str(other), "--baseline", name],
        ]  # fmt: skip

    for words in of(run):
        assert main(words) in (0, 1)
    return of


def test_a_folder_that_one_may_not_look_into(
    run: Path, commands: Callable[[Path], list[list[str]]], capsys: pytest.CaptureFixture[str]
) -> None:
    for words in commands(run)[:5]:
        capsys.readouterr()
        with without_rights(run):
            assert main(words) == 3
        assert DENIED in capsys.readouterr().err


def test_a_folder_above_that_one_may_not_look_into(
    run: Path, commands: Callable[[Path], list[list[str]]], capsys: pytest.CaptureFixture[str]
) -> None:
    for words in commands(run):
        capsys.readouterr()
        with without_rights(run.parent):
            assert main(words) in (2, 3)  # 2: what is expected can't be read either
        assert "compdbg: error: " in (said := capsys.readouterr().err)
        assert "our own fault" not in said


def test_a_folder_whose_files_one_may_list_and_not_open(
    run: Path, commands: Callable[[Path], list[list[str]]], capsys: pytest.CaptureFixture[str]
) -> None:
    with tempfile.TemporaryDirectory() as above:
        listed = Path(shutil.copytree(run, Path(above) / "run"))
        Path(above).chmod(0o755)
        (words,) = [w for w in commands(listed) if w[:1] == ["show"] and len(w) == 2]
        capsys.readouterr()
        with without_rights(listed, 0o444):
            assert main(words) == 3
    assert capsys.readouterr().err == f"compdbg: error: {listed} holds nothing that could be read\n"


@pytest.mark.parametrize("change", [emptied, cut, lambda run: log_of(run).unlink()])
def test_a_run_of_which_part_is_left(
    change: Callable[[Path], None],
    run: Path,
    commands: Callable[[Path], list[list[str]]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    change(run)
    for words in commands(run):
        capsys.readouterr()
        assert main(words) in (0, 1)
        assert capsys.readouterr().err == ""


def test_a_run_that_is_gone(
    run: Path, commands: Callable[[Path], list[list[str]]], capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(run)
    for words in commands(run):
        capsys.readouterr()
        assert main(words) == 3
        assert capsys.readouterr().err == (
            f"compdbg: error: no run at {run}; runs are listed by: compdbg runs\n"
        )


def test_the_current_folder_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    (tmp_path / "here").rmdir()
    assert main(["show"]) == 3
    assert capsys.readouterr().err == (
        "compdbg: error: no run below compdbg-runs; record one with: compdbg run script.py\n"
    )


@pytest.mark.parametrize("left", ["nothing", "half a line"])
def test_a_log_that_was_emptied_is_no_run_without_faults(left: str, run: Path) -> None:
    os.truncate(log_of(run), 0 if left == "nothing" else 100)
    (found,) = find_all(load(run))
    assert (found.code, found.severity) == ("recorder-degraded", "warning")
    assert "the log holds no event, though the run came to its end" in f"{found.title} {found.cause}"


def test_a_run_that_has_only_begun_misses_nothing(tmp_path: Path) -> None:
    assert find_all(load(Builder(tmp_path / "run").folder)) == []
