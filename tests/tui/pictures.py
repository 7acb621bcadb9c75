"""`python -m tests.tui.pictures`: makes the pictures of the documentation, by the program itself."""

from __future__ import annotations

import asyncio
import re
import tempfile
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


async def picture(
    run: Path, name: str, keys: str, size: tuple[int, int] = WIDE, theme: str = "compdbg-dark"
) -> None:
    """The screen after some keys."""
    app = Explorer(run, unicode=True)
    async with app.run_test(size=size) as pilot:
        await app.workers.wait_for_complete()
        app.theme = theme
        await pilot.pause()
        for key in keys.split():
            await pilot.press(key)
            await app.workers.wait_for_complete()
            await pilot.pause()
        drawn = app.export_screenshot(title=f"compdbg tui  {keys}".rstrip())
        fetches_nothing = re.sub(r"@font-face \{.*?\}", "", drawn, flags=re.DOTALL)
        (PICTURES / f"tui-{name}.svg").write_text(fetches_nothing)


async def make(folder: Path) -> None:
    know_source()
    PICTURES.mkdir(exist_ok=True)
    run = everything(folder / "runs" / "serve-20231114")
    earlier = Builder(folder / "runs" / "serve-20231113")
    again = Builder(folder / "score-20231114", argv=["score.py"])
    slow = Builder(folder / "start-20231114")
    for built, part in ((earlier, compiled_with_a_branch), (again, recompiled), (slow, started_slowly)):
        built.start()
        part(built)
        built.end()
    await picture(run, "home", "")
    await picture(run, "home-80", "", SMALL, "compdbg-light")
    await picture(run, "walk-fusion", "f enter")
    await picture(run, "walk-batch-17", "s 1 7")
    await picture(run, "walk-guards", "g")
    await picture(again.folder, "walk-recompiles", "enter enter")
    await picture(slow.folder, "walk-slow-start", "t j")
    await picture(run, "walk-failed-capture", "s 3 2")
    await picture(run, "diff", "d enter")
    await picture(run, "code", "v j j enter", WIDE, "compdbg-light")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        asyncio.run(make(Path(temporary)))
