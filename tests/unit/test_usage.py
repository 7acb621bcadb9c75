"""Slips of the fingers: one line that says what is wrong and what was meant, and the exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from compdbg.cli.main import main
from compdbg.record.manifest import Manifest


@pytest.fixture(autouse=True)
def a_folder_with_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = tmp_path / "compdbg-runs" / "serve-20261129-1200-aa25"
    run.mkdir(parents=True)
    Manifest(str(run), ["serve.py"], {}).write()
    Path("serve.py").write_text("print(1)\n")
    Path("notes.txt").write_text("no run\n")
    Path("empty").mkdir()


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        ("shwo", 2, "no such command: shwo; did you mean show?"),
        ("serve.py", 2, "no such command: serve.py; to run a program: compdbg run serve.py"),
        ("fly", 2, "no such command: fly; there are: run, show, "),
        ("--verion", 2, "no such option: --verion; a command comes first; see compdbg --help"),
        ("show gards", 2, "'gards' is no run here and no view; did you mean guards?"),
        ("show F1", 2, "'F1' is no run here and no view; a finding is shown by: compdbg explain F1"),
        ("show serve", 2, "'serve' is no run here and no view; did you mean serve-20261129-1200-aa25?"),
        (
            "show zzz",
            2,
            "'zzz' is no run here and no view; runs are listed by: compdbg runs; views are: summ",
        ),
        ("show guards fusion", 2, "guards and fusion are both views; one is shown at a time"),
        ("show --josn", 2, "no such option: --josn; did you mean --json?"),
        ("show --zebra", 2, "no such option: --zebra; see compdbg show --help"),
        (
            "explain guards",
            2,
            "'guards' is no run here and no finding; a view is shown by: compdbg show guards",
        ),
        ("explain zzz", 2, "'zzz' is no run here and no finding; runs are listed by: compdbg runs"),
        ("explain F1 F2", 2, "F1 and F2 are both findings; one is explained at a time, or all"),
        ("explain f1", 2, "'f1' is no run here; did you mean F1?"),
        ("report zzz", 2, "'zzz' is no run here; runs are listed by: compdbg runs"),
        ("runs more", 2, "'more' is one word too many; see compdbg runs --help"),
        ("diff latest", 2, "the following arguments are required: B; see compdbg diff --help"),
        ("demo -o empty/..", 2, "empty/.. is there already; -o names a new folder for the run"),
        ("show serve.py", 3, "serve.py is a program, no run; it is recorded by: compdbg run serve.py"),
        (
            "show notes.txt",
            3,
            "notes.txt is no run; a run is a folder that `compdbg run` wrote, or a report of",
        ),
        ("show nowhere/", 3, "no run at nowhere/; runs are listed by: compdbg runs"),
        ("show empty", 3, "empty holds no run: neither run.json nor *.jsonl\n"),
        ("show compdbg-runs", 3, "; name one of those in it, such as compdbg-runs/serve-20261129-1200-aa25"),
    ],
)
def test_what_is_wrong_and_what_to_do(
    words: str, code: int, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words.split()) == code
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("compdbg: error: ")
    assert complaint in err


def test_wrong_usage_is_one_json_object_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "--jsn", "--json"]) == 2
    assert json.loads(capsys.readouterr().out) == {
        "schema": 1,
        "error": {"code": "usage", "message": "no such option: --jsn; did you mean --json?"},
    }


def test_the_help_of_show_says_what_each_view_is(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["show", "--help"])
    assert "  guards    Every guard of every compiled entry" in capsys.readouterr().out


def test_explain_lists_the_codes_it_has_pages_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--code"]) == 0
    assert "recompile-limit          from some call on, calls run eager\n" in capsys.readouterr().out
