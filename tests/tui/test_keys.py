"""What each key does, everywhere the same; the user's own keys, theme and editor."""

from __future__ import annotations

from pathlib import Path

import pytest

from compdbg.events import Where
from compdbg.tui.clipboard import copied_file
from compdbg.tui.editor import NoEditor, editor_command
from compdbg.tui.screen import Main
from tests.tui.conftest import Open
from tests.tui.runs import Builder, compiled_with_a_branch


async def test_moving_and_the_page_beside(opened: Open, full_run: Path) -> None:
    async with opened(full_run, (200, 60)) as tui:
        assert "guard-dropped-violated" in tui.page
        await tui.press("j")
        assert "Model can't be captured at size 32" in tui.page
        await tui.press("k", "down", "end")
        assert tui.app.main.table.cursor == len(tui.app.main.table.items) - 1
        await tui.press("home")
        assert tui.app.main.table.cursor == 0


async def test_a_page_has_siblings_and_a_way_back(opened: Open, full_run: Path) -> None:
    async with opened(full_run) as tui:
        findings = len(tui.app.main.table.items)
        await tui.press("enter", "right_square_bracket")
        assert f"2 of {findings} in Home" in tui.text
        await tui.press("left_square_bracket")
        assert f"1 of {findings} in Home" in tui.text
        await tui.press("left_square_bracket")
        assert f"1 of {findings} in Home" in tui.text
        await tui.press("escape", "escape", "escape")
        assert tui.app.is_running
        assert "▸ F1" in tui.text


async def test_search_finds_the_next_and_the_one_before(opened: Open, full_run: Path) -> None:
    async with opened(full_run) as tui:
        await tui.press("e", "h", "v", "slash")
        await tui.type("CODE")
        first = tui.app.main.table.cursor
        assert "code" in tui.app.main.table.text_of(first)
        await tui.press("g", "slash")
        await tui.type("1/3")
        assert "1/3" in next(line for line in tui.lines if line.startswith("▸"))
        await tui.press("n")
        assert "1/3" in next(line for line in tui.lines if line.startswith("▸"))
        await tui.press("slash", "ctrl+u")
        await tui.type("nowhere")
        assert "no row holds nowhere" in tui.text


async def test_a_search_in_a_list_without_rows(opened: Open, tmp_path: Path) -> None:
    run = Builder(tmp_path / "run")
    async with opened(run.folder) as tui:
        await tui.press("f", "slash")
        await tui.type("norm")
        assert "no row holds norm" in tui.text
        await tui.press("n", "N")
        assert "no row holds norm" in tui.text


async def test_a_search_is_left_by_escape(opened: Open, full_run: Path) -> None:
    async with opened(full_run) as tui:
        await tui.press("g", "enter", "slash", "q", "x", "escape")
        assert "› Guards › Model 0/0" in tui.lines[0]
        await tui.press("j")
        assert tui.app.main.table.cursor == 1


async def test_search_in_a_page_marks_and_goes_round(opened: Open, full_run: Path) -> None:
    async with opened(full_run) as tui:
        await tui.press("v", "enter", "slash")
        await tui.type("rms_norm")
        first = tui.app.main.pane.at
        await tui.press("n")
        second = tui.app.main.pane.at
        assert second > first
        await tui.press("N")
        assert tui.app.main.pane.at == first


async def test_events_are_filtered(opened: Open, full_run: Path) -> None:
    async with opened(full_run) as tui:
        await tui.press("e", "slash")
        await tui.type("kind:guard")
        kinds = {row.kind for row in tui.app.main.table.items}
        assert kinds == {"guards", "guard-violation", "guard-audit"}
        await tui.press("slash", "ctrl+u")
        await tui.type("kind:capture piece:0 scalar")
        assert [row.kind for row in tui.app.main.table.items] == ["capture"]
        await tui.press("slash", "ctrl+u", "enter")
        assert len(tui.app.main.table.items) > 50


async def test_the_evidence_is_copied_as_markdown(opened: Open, full_run: Path) -> None:
    async with opened(full_run) as tui:
        await tui.press("f", "y")
        copied = tui.app.clipboard
        assert copied.startswith("### NormRoundFusionPass norm_round on 0/0")
        assert "**wanted** eps=1e-05 of demo.rms\\_norm.default" in copied
        assert "```python" in copied
        assert "copied 52 lines of Markdown" in tui.lines[-1]
        assert copied_file().read_text() == copied


async def test_tmux_gets_what_is_copied(
    opened: Open, full_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not take what a program asks the terminal to copy, unless it is told to."""
    tmux = tmp_path / "tmux"
    tmux.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/asked; cat > {tmp_path}/buffer\n')
    tmux.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    async with opened(full_run) as tui:
        monkeypatch.setenv("TMUX", "socket")
        await tui.press("f", "y")
        assert (tmp_path / "asked").read_text() == "load-buffer -w -\n"
        assert (tmp_path / "buffer").read_text() == tui.app.clipboard


async def test_a_long_way_is_told_by_its_end(opened: Open, tmp_path: Path) -> None:
    run = Builder(tmp_path / "a_program_with_a_long_name-20231114-101112-ab12")
    run.start()
    compiled_with_a_branch(run)
    run.end()
    async with opened(run.folder) as tui:
        await tui.press("enter", "enter")
        assert tui.lines[0].split("  ")[0] == " compdbg › … › Guards"
        assert tui.lines[0].endswith("a_program_with_…114-101112-ab12")


async def test_the_report_is_written(
    opened: Open, full_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with opened(full_run) as tui:
        await tui.press("x")
        await tui.settle()
        assert "wrote serve-20231114.html" in tui.lines[-1]
        assert (tmp_path / "serve-20231114.html").read_text().startswith("<!DOCTYPE html>")
        (tmp_path / "serve-20231114.html").write_text("mine")
        await tui.press("x")
        await tui.settle()
        assert "is no report of compdbg" in tui.lines[-1]
        assert (tmp_path / "serve-20231114.html").read_text() == "mine"


async def test_the_keys_and_the_palette(opened: Open, full_run: Path) -> None:
    async with opened(full_run) as tui:
        await tui.press("s", "question_mark")
        assert "Keys, here in Sizes" in tui.page
        assert "y             copy the page as Markdown" in tui.page
        await tui.press("question_mark")
        assert "17" in tui.text
        await tui.press("ctrl+p", *"norm", "enter", "enter")
        await tui.settle()
        assert "fusion-missed" in tui.lines[0]


async def test_the_mouse_selects_opens_and_goes(opened: Open, full_run: Path) -> None:
    async with opened(full_run) as tui:
        rows = [n for n, line in enumerate(tui.lines) if "! warning" in line]
        await tui.pilot.click(offset=(10, rows[0]))
        await tui.settle()
        assert "warning" in next(line for line in tui.lines if line.startswith("▸"))
        await tui.pilot.click(offset=(10, rows[0]))
        await tui.settle()
        assert tui.app.main.level.page
        tabs = tui.lines[1]
        await tui.pilot.click(offset=(tabs.index("Guards") + 1, 1))
        await tui.settle()
        assert "› Guards" in tui.lines[0]


async def test_keys_and_theme_of_the_users_own(opened: Open, full_run: Path, tmp_path: Path) -> None:
    home = tmp_path / "config" / "compdbg"
    home.mkdir(parents=True)
    (home / "tui.toml").write_text(
        'theme = "compdbg-light"\n[keys]\nback = "b"\ngo-fusion = "F"\nfly = "x"\n'
    )
    async with opened(full_run) as tui:
        assert tui.app.theme == "compdbg-light"
        assert "no action 'fly'" in tui.lines[-1]
        await tui.press("F")
        assert "› Fusion" in tui.lines[0]
        await tui.press("enter")
        assert "b back" in tui.lines[-1]
        await tui.press("b")
        assert "b back" not in tui.lines[-1]


async def test_a_broken_file_of_settings_is_said(opened: Open, full_run: Path, tmp_path: Path) -> None:
    home = tmp_path / "config" / "compdbg"
    home.mkdir(parents=True)
    (home / "tui.toml").write_text("keys = [")
    async with opened(full_run) as tui:
        assert "tui.toml" in tui.lines[-1]


def test_every_action_has_its_method() -> None:
    for binding in Main.BINDINGS:
        name = binding.action.partition("(")[0]  # type: ignore[union-attr]
        assert hasattr(Main, f"action_{name}"), name


@pytest.mark.parametrize(
    ("editor", "words"),
    [
        ("vim", ["vim", "+7", "{file}"]),
        ("nano -w", ["nano", "-w", "+7", "{file}"]),
        ("code --wait", ["code", "--wait", "--goto", "{file}:7"]),
        ("hx", ["hx", "{file}:7"]),
    ],
)
def test_an_editor_opens_at_the_line(
    editor: str, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / editor.split(maxsplit=1)[0]
    program.write_text("")
    program.chmod(0o755)
    source = tmp_path / "model.py"
    source.write_text("pass\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", editor)
    assert editor_command(Where(str(source), 7)) == [w.format(file=source) for w in words]


def test_without_an_editor_or_a_file_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.delenv("EDITOR", raising=False)
    with pytest.raises(NoEditor, match="not on this machine"):
        editor_command(Where("/gone.py", 1))
    with pytest.raises(NoEditor, match="set \\$EDITOR"):
        editor_command(Where(__file__, 1))
