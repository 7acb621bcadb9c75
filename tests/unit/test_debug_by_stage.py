"""The page that sets commands beside manual checks names nothing that does not exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from compdbg.cli.main import COMMANDS
from compdbg.compiler.overrides import check_key
from compdbg.events import event_types
from compdbg.findings.pages import CODES
from compdbg.views.all import VIEWS

PAGE = (Path(__file__).parents[2] / "docs" / "debug-by-stage.md").read_text()
ROWS = [row for row in re.findall(r"^\| (.+?) \| (.+?) \|$", PAGE, re.MULTILINE) if row[0] != "by hand"]


@pytest.mark.parametrize(("by_hand", "answer"), ROWS, ids=[row[0][:40] for row in ROWS])
def test_each_manual_check_has_a_command_that_exists(by_hand: str, answer: str) -> None:
    commands = re.findall(r"`compdbg (\w+)(?: (\w+))?", answer)
    commands += re.findall(r"\[`compdbg (\w+)(`)\]", answer)
    assert commands
    for command, word in commands:
        assert command in COMMANDS
        if command == "show":
            assert word in VIEWS


def test_kinds_codes_and_keys_exist() -> None:
    kinds = {cls.__struct_config__.tag for cls in event_types()}
    assert set(re.findall(r"kind `([\w-]+)`", PAGE)) <= kinds
    assert set(re.findall(r"`explain --code ([\w-]+)`", PAGE)) <= set(CODES)
    for key in re.findall(r"-cc\.([\w.]+)=", PAGE):
        check_key(key)
