"""`python -m tests.tui.pictures`: makes the pictures of the documentation, by the program itself."""

from __future__ import annotations

import asyncio
import re
import tempfile
from dataclasses import replace
from pathlib import Path

from compdbg.tui.app import Explorer
from tests.tui.runs import (
    Builder,
    compiled_with_a_branch,
    everything,
    know_source,
    recompiled,
    started_slowly,
)

PICTURES = Path(__file__).parents[2] / "docs" / "images"
WIDE, SMALL = (132, 34), (80, 24)


async def picture(run: Path, into: Path, keys: str, size: tuple[int, int], theme: str) -> None:
    """The screen after some keys."""
    app = Explorer(run, unicode=True)
    app.settings = replace(app.settings, theme=theme)  # from the start: a change is drawn part by part
    async with app.run_test(size=size) as pilot:
        await app.workers.wait_for_complete()
        await pilot.pause()
        for key in keys.split():
            await pilot.press(key)
            await app.workers.wait_for_complete()
            await pilot.pause()
        drawn = app.export_screenshot(title=f"compdbg tui  {keys}".rstrip())
        fetches_nothing = re.sub(r"@font-face \{.*?\}", "", drawn, flags=re.DOTALL)
        into.write_text(fetches_nothing)


async def make(folder: Path, pictures: Path) -> None:
    know_source()
    pictures.mkdir(exist_ok=True)
    run = everything(folder / "runs" / "serve-20231114")
    earlier = Builder(folder / "runs" / "serve-20231113")
    again = Builder(folder / "score-20231114", argv=["score.py"])
    slow = Builder(folder / "start-20231114")
    for built, part in ((earlier, compiled_with_a_branch), (again, recompiled), (slow, started_slowly)):
        built.start()
        part(built)
        built.end()
    for name, of, keys, size, theme in (
        ("home", run, "", WIDE, "dark"),
        ("home-80", run, "", SMALL, "light"),
        ("walk-fusion", run, "f enter", WIDE, "dark"),
        ("walk-batch-17", run, "s 1 7", WIDE, "dark"),
        ("walk-guards", run, "g", WIDE, "dark"),
        ("walk-recompiles", again.folder, "enter enter", WIDE, "dark"),
        ("walk-slow-start", slow.folder, "t j", WIDE, "dark"),
        ("walk-failed-capture", run, "s 3 2", WIDE, "dark"),
        ("diff", run, "d enter", WIDE, "dark"),
        ("code", run, "v j j enter", WIDE, "light"),
    ):
        await picture(of, pictures / f"tui-{name}.svg", keys, size, f"compdbg-{theme}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        asyncio.run(make(Path(temporary), PICTURES))
