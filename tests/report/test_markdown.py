"""The Markdown of a run: for a ticket's body, below what trackers take."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from compdbg.cli.main import main
from compdbg.findings.base import Cost, Finding
from compdbg.model.run import Run
from compdbg.report.contents import Contents
from compdbg.report.markdown import MAX_CHARACTERS, markdown
from compdbg.store.reader import Log
from compdbg.views.base import Source


def test_verdict_findings_evidence_and_versions(
    serving_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", f"{serving_run}/", "--markdown"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("### 2 errors and 2 warnings. Worst first: `forward` was compiled for x.shape")
    assert "| versions | torch 2.13.0+cpu, Python 3.11.7 |" in text
    assert "#### F2 error: Decoder can't be captured at size 16" in text
    assert ">   22 |         if x.shape[0] > 16:" in text
    assert "<details><summary>Evidence</summary>" in text
    assert "**What to do:** Keep this guard" in text


def test_it_can_be_written_to_a_file(serving_run: Path, tmp_path: Path) -> None:
    file = tmp_path / "bug.md"
    assert main(["report", f"{serving_run}/", "--markdown", "-o", str(file)]) == 0
    assert file.read_text().startswith("### 2 errors")


def contents_of(*findings: Finding) -> Contents:
    log = Log(Path("r"), {}, [])
    return Contents(source=Source(Run(log), list(findings)), redactions=[], carried=log)


def finding(n: int, **more: object) -> Finding:
    given = {"code": "recompiles", "severity": "warning", "title": f"title {n}", "cause": "c" * 900}
    return Finding(**given | {"suggestion": "s" * 400, "cost": Cost(), "id": f"F{n}"} | more)


def test_what_finds_no_room_is_counted() -> None:
    text = markdown(contents_of(*(finding(n) for n in range(1, 200))))
    assert len(text) < MAX_CHARACTERS
    assert "more findings: `compdbg explain`" in text
    assert "title 1\n" in text


def test_backquotes_of_the_program_do_not_open_code() -> None:
    text = markdown(contents_of(finding(1, title="one ` alone", cause="`a|b` and ``` three")))
    assert "one \\` alone" in text


def test_a_fence_in_the_evidence_does_not_end_ours() -> None:
    hostile = finding(1, title="</details> <b>@everyone</b> [x](http://e.example)")
    text = markdown(contents_of(hostile))
    assert "\\<b\\>\\@everyone\\</b\\>" in text
    assert "\\[x\\](http\\://e.example)" in text


def test_a_clean_run() -> None:
    text = markdown(contents_of())
    assert text.startswith("### No fault was found")
    assert msgspec.json.encode(text)
