"""A report is a run: what reads runs reads it, on a machine that has nothing else of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import compdbg
from compdbg.cli.main import main
from compdbg.findings.collect import find_all
from compdbg.report.contents import contents
from compdbg.report.page.document import document
from compdbg.store.embedded import encode, read_report
from compdbg.store.locate import open_run
from compdbg.store.packed import pack_events, pack_texts, unpack_events, unpack_texts
from compdbg.store.reader import CannotRead
from compdbg.views.all import VIEWS
from compdbg.views.base import Source
from tests.report.conftest import write_report


@pytest.fixture(scope="module")
def report(serving_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(serving_run, tmp_path_factory.mktemp("elsewhere") / "bug.html")


def test_findings_and_views_are_those_of_the_run(serving_run: Path, report: Path) -> None:
    here, there = (Source(run, find_all(run)) for run in map(compdbg.load, (serving_run, report)))
    assert [(f.id, f.fingerprint, f.title) for f in there.findings] == [
        (f.id, f.fingerprint, f.title) for f in here.findings
    ]
    for name, view in VIEWS.items():
        assert len(view(there).items) == len(view(here).items), name
    assert there.run.sizes == here.run.sizes
    assert there.run.pieces == here.run.pieces


def test_graphs_and_code_are_in_it(serving_run: Path, report: Path) -> None:
    here, there = compdbg.load(serving_run), compdbg.load(report)
    texts = [there.log.text(graph.text) for graph in there.graphs]
    assert texts == [here.log.text(graph.text) for graph in here.graphs]
    assert any("serve.rms_norm.default" in (text or "") for text in texts)


def test_explain_shows_the_line_where_the_program_is_not(
    report: Path, serving_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = serving_run.parent / "serve.py"
    kept = program.read_text()
    program.write_text("# another program by now\n" * 60)
    try:
        assert main(["explain", str(report), "F1"]) == 0
    finally:
        program.write_text(kept)
    said = capsys.readouterr().out
    assert "22 | if x.shape[0] > 16:" in said


def test_show_with_json(report: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(report), "fusion", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["run"]["path"] == str(report)
    assert [row["outcome"] for row in answer["items"]] == ["missed"]


def test_a_report_of_a_report_is_the_same_report(report: Path) -> None:
    again = document(contents(open_run(str(report))))
    assert compdbg.load(report).log.records == read_again(again, report).records
    assert "if x.shape[0] &gt; 16:" in again


def read_again(page: str, report: Path):
    file = report.with_name("again.html")
    file.write_text(page)
    return read_report(file)


def test_events_and_texts_come_back_as_they_were(serving_run: Path) -> None:
    log = open_run(f"{serving_run}/")
    back = list(unpack_events(json.loads(json.dumps(pack_events(log.records), default=str))))
    assert [(r.id, r.header.parent, r.event.kind) for r in back] == [
        (r.id, r.header.parent, r.event.kind) for r in log.records
    ]
    assert all(abs(a.header.time - b.header.time) < 2e-6 for a, b in zip(back, log.records, strict=True))
    texts = {"a": "x\ny\n", "b": "", "c": "y\nx\n\nx"}
    assert unpack_texts(pack_texts(texts)) == texts


class TestWhatIsNoReport:
    def test_a_page_that_was_cut_short(self, report: Path, tmp_path: Path) -> None:
        text = report.read_text()
        file = tmp_path / "cut.html"
        file.write_text(text[: text.index('id="compdbg-events"') + 200])
        with pytest.raises(CannotRead, match=r"no block '(texts|events)'"):
            open_run(str(file))

    @pytest.mark.parametrize("damage", ["AAAA", "eJwDAAAAAAE=", encode([1, 2]), encode({"headers": 1})])
    def test_a_block_that_was_changed(self, report: Path, tmp_path: Path, damage: str) -> None:
        text = report.read_text()
        start = text.index(">", text.index('id="compdbg-events"')) + 1
        file = tmp_path / "changed.html"
        file.write_text(text[:start] + damage + text[text.index("<", start) :])
        with pytest.raises(CannotRead, match="damaged"):
            open_run(str(file))

    def test_another_page(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        file = tmp_path / "other.html"
        file.write_text("<!DOCTYPE html><p>hello")
        assert main(["explain", str(file)]) == 3
        assert "other.html is no run; a run is a folder" in capsys.readouterr().err

    def test_what_would_inflate_without_end(self) -> None:
        with pytest.raises(ValueError, match="more than"):
            unpack_texts({"lines": ["x" * 100_000], "runs": {"a": [0, 1] * 10_000}})


class TestTheCommand:
    def test_a_file_that_is_no_report_is_not_overwritten(
        self, serving_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        notes = tmp_path / "notes.html"
        notes.write_text("mine")
        assert main(["report", f"{serving_run}/", "-o", str(notes)]) == 2
        assert notes.read_text() == "mine"
        assert "--force" in capsys.readouterr().err
        assert main(["report", f"{serving_run}/", "-o", str(notes), "--force"]) == 0
        assert main(["report", f"{serving_run}/", "-o", str(notes)]) == 0

    def test_json_says_what_was_written(
        self, serving_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        file = tmp_path / "bug.html"
        assert main(["report", f"{serving_run}/", "-o", str(file), "--json"]) == 0
        (item,) = json.loads(capsys.readouterr().out)["items"]
        assert item["file"] == str(file)
        assert item["bytes"] == file.stat().st_size

    def test_a_folder_that_is_not_there_is_one_line(
        self, serving_run: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["report", f"{serving_run}/", "-o", "/proc/nowhere/all.html"]) == 2
        assert (
            capsys.readouterr().err == "compdbg: error: /proc/nowhere/all.html: No such file or directory\n"
        )

    def test_without_a_name_it_is_called_as_the_run(
        self, serving_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        assert main(["report", f"{serving_run}/"]) == 0
        assert [path.name for path in tmp_path.iterdir()] == [f"{serving_run.name}.html"]
