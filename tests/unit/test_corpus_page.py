"""The table of the corpus in the documentation is that of the files, and covers every code."""

from __future__ import annotations

from pathlib import Path

import pytest

from compdbg.findings.pages import CODES
from fixtures.corpus import SCRIPTS, Outcome, expectations, scripts, table

PAGE = Path(__file__).parents[2] / "docs" / "corpus.md"


def test_the_counts_of_the_page_are_those_of_the_files() -> None:
    right = [Outcome(script, [], [], 0, 0) for script in scripts()]
    assert table(right) in PAGE.read_text()


def test_what_is_missed_or_alarms_shows_in_the_table() -> None:
    script = SCRIPTS / "stalled" / "killed_while_compiling.py"
    wanted, _ = expectations(script)
    outcome = Outcome(script, wanted, [{"code": "compile-failed"}], -9, -9)
    assert not outcome.right
    assert "| `stalled` | 0 | 1 | 0 | 0 |" in table([outcome])
    assert "| `compile-failed` | 0 | 0 | 0 | 1 |" in table([outcome])


@pytest.mark.parametrize("code", CODES)
def test_each_code_has_faults_of_several_shapes_and_twins(code: str) -> None:
    faults = [s for s in scripts() if any(code in e.codes for e in expectations(s)[0])]
    twins = [s for s in scripts() if s.parent.name == code and not expectations(s)[0]]
    assert len(faults) >= 3
    assert len(twins) >= 2
