"""Pictures of the report at three widths, light and dark, and the one of the README.

`python -m tests.report.screenshots` makes them anew, to be looked at before they are committed.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from tests.report.conftest import CHROMIUM, READY_MS, write_report
from tests.report.serving import serving

HERE = Path(__file__).parent / "screenshots"
README = Path(__file__).parents[2] / "docs" / "images" / "report.png"
SHOTS = {
    f"{width}-{scheme}-{name}": (width, scheme, fragment)
    for width in (400, 1200, 2000)
    for scheme in ("light", "dark")
    for name, fragment in (("verdict", ""), ("fusion", "#fusion"), ("sizes", "#sizes"))
}
_HEIGHT = {400: 860, 1200: 900, 2000: 1100}
_SCALE = {400: 0.75, 1200: 0.5, 2000: 0.4}


def shoot(browser: Any, report: Path, name: str) -> bytes:
    width, scheme, fragment = SHOTS[name]
    return picture(browser, report, width, scheme, fragment, _SCALE[width])


def picture(browser: Any, report: Path, width: int, scheme: str, fragment: str, scale: float) -> bytes:
    """A PNG of what is on the screen."""
    context = browser.new_context(
        viewport={"width": width, "height": _HEIGHT[width]},
        color_scheme=scheme,
        device_scale_factor=scale,
        reduced_motion="reduce",
    )
    page = context.new_page()
    page.goto(report.as_uri() + fragment)
    page.wait_for_selector("html.ready", timeout=READY_MS)
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    made: bytes = page.screenshot()
    context.close()
    return made


def main() -> None:
    from playwright.sync_api import sync_playwright

    HERE.mkdir(exist_ok=True)
    README.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as driver:
        source = Path(scratch)
        report = write_report(serving(source / "serve-20260921-134640-8c1f", source), source / "bug.html")
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for name in SHOTS:
            (HERE / f"{name}.png").write_bytes(shoot(browser, report, name))
        README.write_bytes(picture(browser, report, 1200, "light", "", 1))
        browser.close()


if __name__ == "__main__":
    main()
