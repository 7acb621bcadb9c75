"""A real Chromium for the report's page: the system's own, driven by Playwright; without one, skipped."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from compdbg.report.contents import contents
from compdbg.report.page.document import document
from compdbg.store.locate import open_run
from tests.report.serving import serving

CHROMIUM = next((found for name in ("chromium", "chromium-browser") if (found := shutil.which(name))), None)
READY_MS = 10_000


def write_report(run: Path, file: Path, *, redact: bool = True) -> Path:
    file.write_text(document(contents(open_run(f"{run}/"), redact=redact)), "utf-8")
    return file


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="needs Playwright (pip install playwright)"
    )
    if CHROMIUM is None:
        pytest.skip("needs Chromium (apt-get install chromium)")
    with playwright.sync_playwright() as driver:
        launched = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture(scope="session")
def serving_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run with a fault for each walk."""
    base = tmp_path_factory.mktemp("serving")
    return serving(base / "serve-20260921-134640-8c1f", base)


@pytest.fixture(scope="session")
def serving_report(serving_run: Path) -> Path:
    return write_report(serving_run, serving_run.parent / "bug.html")


Open = Callable[..., Any]


def until(page: Any, condition: str, patience_ms: int = 20_000) -> None:
    """Wait for a condition; Playwright's own way evaluates in the page, which its policy forbids."""
    step = 20
    for _ in range(patience_ms // step):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(step)
    raise AssertionError(f"not within {patience_ms} ms: {condition}")


@pytest.fixture
def open_page(browser: Any) -> Iterator[Open]:
    """Opens a report. At the end: nothing was requested but the file itself, and no error was logged."""
    contexts, errors, requests = [], [], []

    def opened(file: Path, fragment: str = "", *, ready: bool = True, **options: Any) -> Any:
        given = {"viewport": {"width": 1200, "height": 900}, "reduced_motion": "reduce"} | options
        context = browser.new_context(**given)
        contexts.append(context)
        context.set_default_timeout(READY_MS)
        page = context.new_page()
        page.on(
            "console", lambda said: errors.append(said.text) if said.type in ("error", "warning") else None
        )
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(file.as_uri() + fragment)
        if ready:
            page.wait_for_selector("html.ready", timeout=READY_MS)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert errors == []
    assert {url.partition("#")[0] for url in requests if not url.startswith("data:")} <= {
        url.partition("#")[0] for url in requests if url.startswith("file:")
    }
    assert len({url.partition("#")[0] for url in requests}) <= 1


def in_sight(page: Any, selector: str) -> bool:
    """Whether an element's beginning is on the screen, below the page's head."""
    return bool(
        page.evaluate(
            """selector => {
              const box = document.querySelector(selector).getBoundingClientRect();
              return box.top < innerHeight - 20 && box.bottom > 60;
            }""",
            selector,
        )
    )
