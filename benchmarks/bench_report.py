"""The HTML report: size and time at 100,000 events, and beside tlparse's on the trace of the same program."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.large_run import write_large_run
from benchmarks.table import show

EVENTS = (10_000, 100_000, 300_000)
ROUNDS = 5
PROGRAM = Path(__file__).parents[1] / "fixtures" / "real" / "bert.py"


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        _by_events(Path(scratch))
        _beside_tlparse(Path(scratch))


def _by_events(scratch: Path) -> None:
    rows = []
    for count in EVENTS:
        run = write_large_run(scratch / f"run-{count}", count)
        file = scratch / f"{count}.html"
        written = _seconds(lambda run=run, file=file: _report(run, file))  # type: ignore[misc]
        read = _seconds(lambda file=file: _compdbg("explain", str(file)))  # type: ignore[misc]
        rows.append(
            [f"{count:,}", _size(_bytes(run)), _size(file.stat().st_size), f"{written:.1f}", f"{read:.1f}",
             *_opened(file)]
        )  # fmt: skip
    head = [
        "events",
        "run",
        "report",
        "written s",
        "explained s",
        "painted ms",
        "usable ms",
        "events shown ms",
    ]
    show("The report by events (`bench_report`)", head, rows)


def _beside_tlparse(scratch: Path) -> None:
    """One process recorded by both: torch's own trace, and ours."""
    tlparse = shutil.which("tlparse", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    run, trace, out = scratch / "run", scratch / "trace", scratch / "tlparse"
    environment = {**os.environ, "TORCH_TRACE": str(trace), "TORCHINDUCTOR_CACHE_DIR": str(scratch / "cache")}
    command = [sys.executable, "-m", "compdbg", "run", "--quiet", "-o", str(run), str(PROGRAM)]
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    file = scratch / "report.html"
    rows = [
        [
            "compdbg report",
            _size(_bytes(run)),
            _size(_report_size(run, file)),
            1,
            _median(lambda: _report(run, file)),
        ]
    ]
    if tlparse is not None:
        log = max(trace.glob("*.log"), key=lambda path: path.stat().st_size)
        words = [tlparse, str(log), "-o", str(out), "--overwrite", "--no-browser"]
        took = _median(lambda: subprocess.run(words, check=True, capture_output=True))
        files = sum(path.is_file() for path in out.rglob("*"))
        rows.append(["tlparse", _size(_bytes(trace)), _size(_bytes(out)), files, took])
    head = [f"`{PROGRAM.name}`", "recorded", "written", "files", "s"]
    show("The report and tlparse's (`bench_report`)", head, rows)


def _opened(file: Path) -> list[str]:
    """Medians of first paint, tables and keys there, and the events shown, in Chromium; `-` without it."""
    chromium = shutil.which("chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return ["-"] * 3
    if chromium is None:
        return ["-"] * 3
    found = []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for _ in range(ROUNDS):
            page = browser.new_page()
            page.goto(file.as_uri())
            page.wait_for_selector("html.ready")
            usable = page.evaluate("performance.now()")
            painted = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
            before = page.evaluate("(location.hash = 'events', performance.now())")
            page.wait_for_selector("#events tr.opens")
            found.append((painted, usable, page.evaluate("performance.now()") - before))
            page.close()
        browser.close()
    return [f"{statistics.median(column):.0f}" for column in zip(*found, strict=True)]


def _report(run: Path, file: Path) -> None:
    _compdbg("report", f"{run}/", "-o", str(file))


def _report_size(run: Path, file: Path) -> int:
    _report(run, file)
    return file.stat().st_size


def _compdbg(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "compdbg", *words], check=True, stdout=subprocess.DEVNULL)


def _seconds(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def _median(act: Callable[[], object]) -> str:
    return f"{statistics.median(_seconds(act) for _ in range(ROUNDS)):.2f}"


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _size(count: int) -> str:
    return f"{count / 1e6:.2f} MB" if count > 1e6 else f"{count / 1e3:.0f} kB"
