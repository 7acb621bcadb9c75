"""The page looks as it did when somebody looked at it, as far as fonts allow."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from tests.report.screenshots import HERE, SHOTS, shoot

MOST = 0.06
"""Mean difference of the two pictures, blurred to 48 columns; another font makes a third of it."""
_DIFFERENCE = """async ([one, other]) => {
  const pixels = async (png) => {
    const image = new Image();
    image.src = `data:image/png;base64,${png}`;
    await image.decode();
    const canvas = new OffscreenCanvas(48, 48);
    const context = canvas.getContext("2d");
    context.imageSmoothingQuality = "high";
    context.drawImage(image, 0, 0, 48, 48);
    return [context.getImageData(0, 0, 48, 48).data, image.width, image.height];
  };
  const [a, b] = [await pixels(one), await pixels(other)];
  if (a[1] !== b[1] || a[2] !== b[2]) return 1;
  return a[0].reduce((sum, value, n) => sum + Math.abs(value - b[0][n]), 0) / a[0].length / 255;
}"""


@pytest.fixture(scope="module")
def blank(browser):
    page = browser.new_page()
    yield page
    page.close()


@pytest.mark.parametrize("name", [name for name in SHOTS if name.endswith(("light-verdict", "dark-fusion"))])
def test_as_it_was_looked_at(browser, blank, serving_report: Path, name: str) -> None:
    found = base64.b64encode(shoot(browser, serving_report, name)).decode()
    kept = base64.b64encode((HERE / f"{name}.png").read_bytes()).decode()
    assert blank.evaluate(_DIFFERENCE, [found, kept]) < MOST
