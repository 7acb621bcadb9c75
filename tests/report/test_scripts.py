"""The page's modules one by one: in Node where there is one, else in Chromium."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHECKS = Path(__file__).parent / "scripts" / "checks.js"
NAMES = re.findall(r'^  "([^"]+)":', CHECKS.read_text(), re.MULTILINE)
_ORIGIN = "http://checks.test"
_RUN = """\
import { results } from "./tests/report/scripts/checks.js";
console.log(JSON.stringify(await results()));
"""


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    node = shutil.which("node")
    if node is not None:
        return _in_node(node, tmp_path_factory.mktemp("modules"))
    return _in_browser(request.getfixturevalue("browser"))


def _in_node(node: str, folder: Path) -> dict[str, str]:
    """Node takes a `.js` file for a module where a `package.json` beside it says so."""
    for part in ("compdbg/report/assets", "tests/report/scripts"):
        shutil.copytree(ROOT / part, folder / part)
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "run.js").write_text(_RUN)
    done = subprocess.run(
        [node, "run.js"], cwd=folder, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


def _in_browser(browser) -> dict[str, str]:
    """Modules are not loaded from files: they are handed out as if by a server."""

    def answer(route) -> None:
        path = ROOT / route.request.url.removeprefix(f"{_ORIGIN}/")
        if path.is_file():
            route.fulfill(body=path.read_bytes(), content_type="text/javascript")
        else:
            route.fulfill(body="<!DOCTYPE html>", content_type="text/html")

    context = browser.new_context()
    page = context.new_page()
    page.route(f"{_ORIGIN}/**", answer)
    page.goto(f"{_ORIGIN}/")
    found = page.evaluate(f"import('/{CHECKS.relative_to(ROOT)}').then(m => m.results())")
    context.close()
    return found


@pytest.mark.parametrize("name", NAMES)
def test_module(results: dict[str, str], name: str) -> None:
    assert results[name] == ""


def test_all_checks_ran(results: dict[str, str]) -> None:
    assert sorted(results) == sorted(NAMES)
    assert len(NAMES) > 30


def test_the_modules_run_in_the_browser_too(browser) -> None:
    assert set(_in_browser(browser).values()) == {""}
