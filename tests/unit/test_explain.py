"""A finding as a person reads it, and the words of `explain` and `show`."""

from __future__ import annotations

from pathlib import Path

import pytest

from compdbg.cli.errors import UsageError
from compdbg.cli.explain import split_words as explain_words
from compdbg.cli.show import split_words as show_words
from compdbg.events import Where
from compdbg.findings.base import Cost, Finding
from compdbg.model.run import Run
from compdbg.report.explain import render
from compdbg.store.reader import Log
from compdbg.views.base import Source
from compdbg.views.explanation import explain
from compdbg.views.summary import verdict


def finding(path: Path) -> Finding:
    return Finding(
        id="F1",
        code="guard-dropped-violated",
        severity="error",
        title="a branch on the batch size was frozen",
        cause="size 4 takes the branch of size 16.",
        suggestion="Keep the guard.",
        where=Where(str(path), 2, "forward"),
        cost=Cost(results="wrong"),
        evidence=["1-a:7"],
    )


def source(*findings: Finding) -> Source:
    return Source(Run(Log(Path("r"), {}, [])), list(findings))


def test_an_explanation_shows_the_users_line_as_it_stands_in_the_file(tmp_path: Path) -> None:
    script = tmp_path / "model.py"
    script.write_text("def forward(x):\n    if x.shape[0] > 10:\n")
    shown = source(finding(script))
    assert render(explain(shown, shown.findings[0])).splitlines() == [
        "F1  error  guard-dropped-violated  model.py:2",
        "    a branch on the batch size was frozen",
        "",
        "      2 | if x.shape[0] > 10:",
        "",
        "    cause     size 4 takes the branch of size 16.",
        "    cost      wrong results",
        "    do        Keep the guard.",
        "    more      compdbg explain --code guard-dropped-violated",
    ]


def test_a_file_that_is_gone_costs_only_the_line(tmp_path: Path) -> None:
    shown = source(finding(tmp_path / "gone.py"))
    assert "2 |" not in render(explain(shown, shown.findings[0]))


def test_the_verdict_counts_errors_and_warnings_and_names_the_worst(tmp_path: Path) -> None:
    assert verdict(source()) == "No fault was found in this run."
    assert verdict(source(finding(tmp_path / "m.py"))) == (
        "1 error. Worst first: a branch on the batch size was frozen"
    )


def test_words_of_explain() -> None:
    assert explain_words([]) == (None, None)
    assert explain_words(["F3"]) == (None, "F3")
    assert explain_words(["some/run", "F3"]) == ("some/run", "F3")
    with pytest.raises(UsageError):
        explain_words(["a", "b"])


def test_words_of_show() -> None:
    views = ("summary", "fusion")
    assert show_words(["fusion"], views) == (None, "fusion")
    assert show_words(["./fusion"], views) == ("./fusion", None)
    assert show_words(["run-1", "fusion"], views) == ("run-1", "fusion")
    with pytest.raises(UsageError, match="'fussion' is no view"):
        show_words(["run-1", "fussion"], views)
