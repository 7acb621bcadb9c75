"""Every program of the corpus is told as its docstring says; its twins give no alarm."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.corpus import SCRIPTS, Outcome, judge, scripts

pytestmark = [pytest.mark.torch, pytest.mark.slow]


@pytest.mark.parametrize("script", scripts(), ids=lambda p: str(p.relative_to(SCRIPTS)))
def test_script_is_told_as_it_says(script: Path) -> None:
    outcome = judge(script)
    assert outcome == Outcome(script, [], [], outcome.wanted_exit, outcome.wanted_exit)
