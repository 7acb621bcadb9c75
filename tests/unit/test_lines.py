"""The log of one process: whole lines, however texts, descriptors and clocks behave."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compdbg.events import Span, Where
from compdbg.events.frames import FrameStart
from compdbg.record.lines import Lines, to_json, warn
from compdbg.record.privacy import safe_argv, safe_environment
from compdbg.record.writer import Writer
from compdbg.store.reader import read_log


@pytest.fixture
def lines(tmp_path: Path) -> Iterator[Lines]:
    made = Lines(str(tmp_path))
    yield made
    made.close()


def written(lines: Lines) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(lines.path).read_bytes().splitlines()]


@pytest.mark.parametrize(
    "value",
    ['a"\\\n\x00ü\U0001f600', None, True, False, 0, -7, 1.5, [], {}, {"a": [1, {"b": None}]}, (1, "x")],
)
def test_plain_values_as_json(value: object) -> None:
    assert json.loads(to_json(value)) == (list(value) if isinstance(value, tuple) else value)


def test_a_line_is_a_header_and_an_event(lines: Lines) -> None:
    assert [lines.note("span", name="n", duration_s=0.5), lines.append(b'"kind": "x"}', 1)] == [1, 2]
    first, second = written(lines)
    assert first["kind"] == "span"
    assert (second["seq"], second["parent"], second["process"]) == (2, 1, lines.process)
    assert Path(lines.path).name.startswith(f"{os.uname().nodename}-{os.getpid()}-")


def test_events_and_notes_read_alike(lines: Lines) -> None:
    lines.note("span", name="n", duration_s=0.5)
    Writer(lines).write(Span(name="n", duration_s=0.5))
    (_, first), (_, second) = read_log(Path(lines.folder)).of(Span)
    assert first == second


def test_a_text_that_is_no_unicode(lines: Lines) -> None:
    writer = Writer(lines)
    event = FrameStart(frame="f", compile_id="0/0", where=Where("/tmp/\udcff.py", 1, "f"))
    assert writer.write(event) == 1
    log = read_log(Path(lines.folder))
    ((_, read),) = log.of(FrameStart)
    assert read.where is not None
    assert read.where.file == "/tmp/\\udcff.py"
    assert log.text(writer.payload("a\udcff\ud800")) == "a\\udcff\\ud800"


def test_the_descriptor_is_ours_alone(lines: Lines, tmp_path: Path) -> None:
    """A program may close every descriptor and get our number for a file of its own."""
    lines.note("one")
    number = lines._file
    assert number is not None
    os.close(number)
    other = os.open(tmp_path / "theirs", os.O_WRONLY | os.O_CREAT)
    os.dup2(other, number)
    lines.note("two")
    os.close(other)
    os.close(number)
    assert [event["kind"] for event in written(lines)] == ["one", "two"]
    assert (tmp_path / "theirs").read_bytes() == b""


def test_the_descriptor_leaves_low_numbers_to_the_program(lines: Lines) -> None:
    before = os.open("/", os.O_RDONLY)
    os.close(before)
    lines.note("one")
    after = os.open("/", os.O_RDONLY)
    os.close(after)
    assert after == before
    assert not os.get_inheritable(lines._file or 0)


def test_threads_and_reentry_keep_lines_whole(lines: Lines) -> None:
    def work() -> None:
        for _ in range(200):
            lines.note("x", text="y" * 500)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(event["seq"] for event in written(lines)) == list(range(1, 801))


def test_a_torn_line_costs_itself_only(lines: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPDBG_WARNED", "1")
    lines.note("one")
    whole = os.write
    with monkeypatch.context() as full:
        full.setattr(os, "write", lambda file, data: whole(file, data[:10]))
        assert lines.note("torn") is None
    lines.note("two")
    content = Path(lines.path).read_bytes().splitlines()
    assert [json.loads(line)["kind"] for line in (content[0], *content[2:])] == ["one", "events-lost", "two"]
    log = read_log(Path(lines.folder))
    assert (log.damaged, log.lost) == (1, {})


def test_what_is_lost_for_good_stands_in_a_files_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COMPDBG_WARNED", "1")
    lines = Lines(str(tmp_path))
    lines.path = "/proc/nowhere"
    for _ in range(12):
        lines.note("x")
    lines.close()
    assert [p.name for p in tmp_path.iterdir()] == [f"{lines.name}.lost-12"]
    (tmp_path / "run.json").write_text('{"complete": true}')
    assert read_log(tmp_path).lost == {lines.name: 12}


def test_one_warning_in_a_process(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("COMPDBG_WARNED", raising=False)
    warn("first")
    warn("second")
    monkeypatch.delenv("COMPDBG_WARNED")
    monkeypatch.setattr("sys.__stderr__", None)
    warn("third")
    assert capfd.readouterr().err == "compdbg: first\n"
    monkeypatch.delenv("COMPDBG_WARNED")


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (["--api-key", "x", "y"], ["--api-key", "<hidden>", "y"]),
        (["--hf-token=x"], ["--hf-token=<hidden>"]),
        (["-password", "x"], ["-password", "<hidden>"]),
        (["model.api_key=x"], ["model.api_key=<hidden>"]),
        (["--HF_TOKEN", "x"], ["--HF_TOKEN", "<hidden>"]),
        (
            ["--tokenizer", "x", "--max-tokens=5", "token", "x"],
            ["--tokenizer", "x", "--max-tokens=5", "token", "x"],
        ),
        (["--api-key"], ["--api-key"]),
        (["print('key=1')"], ["print('key=1')"]),
        (["\udcff"], ["\\udcff"]),
    ],
)
def test_values_of_secret_options(given: list[str], kept: list[str]) -> None:
    assert safe_argv(given) == kept


def test_environment_values_that_are_kept() -> None:
    kept = {"TORCH_LOGS": "+dynamo", "RANK": "0", "VLLM_USE_V1": "1", "CUDA_VISIBLE_DEVICES": "0"}
    dropped = {"HOME": "/root", "VLLM_API_KEY": "x", "TORCH_SECRET": "x", "RANKING": "x", "HF_TOKEN": "x"}
    assert safe_environment(kept | dropped) == kept
