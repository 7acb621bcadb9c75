"""What Dynamo runs in a frame's place, on the Code screen."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from compdbg.events import FrameCode
from compdbg.hooks.transformed import as_data
from compdbg.views import bytecode
from tests.tui.conftest import Open
from tests.tui.runs import Builder


def forward(x: Any, compiled: Any) -> Any:
    return compiled(x)[0]


def a_run(folder: Path, python: str = "{}.{}".format(*sys.version_info)) -> Path:
    run = Builder(folder)
    run.start()
    text = json.dumps({"python": python, "code": as_data(forward.__code__), "dis": "  1  RESUME  0"})
    digest = run.text(text, "c0de")
    run.add(FrameCode(frame="serve.py:1:forward", compile_id="0/0", text=digest, name="forward"))
    run.end()
    return run.folder


async def test_code_is_decompiled_when_it_is_looked_at(opened: Open, tmp_path: Path) -> None:
    async with opened(a_run(tmp_path / "run"), (160, 40)) as tui:
        await tui.press("v")
        assert "what Dynamo runs for forward" in tui.text
        await tui.press("enter")
        assert "decompiled by depyf" in tui.page
        assert "def forward(x, compiled):" in tui.page
        assert "return compiled(x)[0]" in tui.page


async def test_code_of_another_python_is_shown_as_it_was_recorded(opened: Open, tmp_path: Path) -> None:
    async with opened(a_run(tmp_path / "run", "3.1"), (160, 40)) as tui:
        await tui.press("v", "enter")
        assert "it was recorded by Python 3.1" in tui.page
        assert "RESUME  0" in tui.page


async def test_a_decompiler_that_hangs_holds_up_nothing(
    opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bytecode, "TIME_S", 0.001)
    bytecode.decompiled.cache_clear()
    async with opened(a_run(tmp_path / "run"), (160, 40)) as tui:
        await tui.press("v", "enter")
        assert "could not be decompiled" in tui.page
        assert "RESUME  0" in tui.page
    bytecode.decompiled.cache_clear()
