"""Each screen as it was accepted, at 80 and 160 columns, in light and dark: text and colours.

`COMPDBG_ACCEPT=1 pytest tests/tui/test_screens.py` accepts what the screens are now. The files are
read in reviews: a screen's lines, then each line's stretches with their colours.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import textual

from compdbg.views.explorer.all import PLACES
from tests.tui.conftest import Driver, Open
from tests.tui.pictures import PICTURES, make

ACCEPTED = Path(__file__).parent / "screens"
PINNED = "8.2."
"""Another Textual may draw otherwise; screens are compared on this one."""
SIZES = ((80, 24), (160, 48))
THEMES = ("compdbg-dark", "compdbg-light")

pytestmark = pytest.mark.skipif(
    not textual.__version__.startswith(PINNED), reason=f"screens were accepted on Textual {PINNED}"
)


def drawn(tui: Driver) -> str:
    """The text of the screen, then the colours of each line that has any of its own."""
    strips = tui.app.screen._compositor.render_strips()
    colours = []
    for n, strip in enumerate(strips):
        said = [f"{segment.cell_length} {segment.style}" for segment in strip.simplify() if segment.text]
        colours.append(f"{n}: {'; '.join(said)}")
    return "\n".join([*tui.lines, "", *colours]) + "\n"


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("size", SIZES, ids=lambda s: str(s[0]))
async def test_each_screen_is_as_it_was_accepted(
    opened: Open, full_run: Path, size: tuple[int, int], theme: str
) -> None:
    differing = []
    async with opened(full_run, size) as tui:
        tui.app.theme = theme
        await tui.settle()
        await tui.press("f", "g", "s", "h")  # everything has been laid out once
        for place in PLACES.values():
            for name, keys in ((place.name, [place.letter]), (f"{place.name}-page", ["enter"])):
                await tui.press(*keys)
                if not accepted(f"{name}-{size[0]}-{theme.removeprefix('compdbg-')}", drawn(tui)):
                    differing.append(name)
            await tui.press("escape", "escape", "escape")
    assert not differing, f"screens have changed: {differing}; see {ACCEPTED}/*.new, or accept them"


async def test_the_pictures_of_the_documentation_are_what_the_program_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    await make(tmp_path / "made", tmp_path / "images")
    made = sorted(path.name for path in (tmp_path / "images").iterdir())
    assert made == sorted(path.name for path in PICTURES.glob("tui-*.svg"))
    stale = [n for n in made if (tmp_path / "images" / n).read_text() != (PICTURES / n).read_text()]
    assert not stale, "make them anew: python -m tests.tui.pictures"


def accepted(name: str, now: str) -> bool:
    """Whether the screen is as accepted; what it is now is left beside it where it is not."""
    path = ACCEPTED / f"{name}.txt"
    if os.environ.get("COMPDBG_ACCEPT"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(now)
    if path.exists() and path.read_text() == now:
        path.with_suffix(".new").unlink(missing_ok=True)
        return True
    path.parent.mkdir(exist_ok=True)
    path.with_suffix(".new").write_text(now)
    return False
