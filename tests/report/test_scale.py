"""A long run in one file: small, soon usable, thinned where it must be, and said so."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from benchmarks.large_run import write_large_run
from compdbg.findings.base import Finding
from compdbg.model.run import Run
from compdbg.report.contents import contents
from compdbg.report.page.document import document
from compdbg.report.thin import thinned
from compdbg.store.locate import open_run
from compdbg.store.reader import Log
from compdbg.views.base import Source
from tests.report.conftest import Open, until

EVENTS = 100_000
BUSY = 4
"""A machine that runs other tests beside this one is so much slower than the second that is promised."""


@pytest.fixture(scope="module")
def large_log(tmp_path_factory: pytest.TempPathFactory) -> Log:
    return open_run(f"{write_large_run(tmp_path_factory.mktemp('large') / 'run', EVENTS)}/")


@pytest.fixture(scope="module")
def large_report(large_log: Log, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("report") / "bug.html"
    file.write_text(document(contents(large_log)))
    return file


def test_100_000_events_are_below_3_mb(large_report: Path) -> None:
    assert large_report.stat().st_size < 3_000_000


def test_it_is_soon_usable(open_page: Open, large_report: Path) -> None:
    started = time.monotonic()
    page = open_page(large_report)
    assert time.monotonic() - started < BUSY
    assert page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime") < 1000 * BUSY
    page.keyboard.press("j")
    until(page, "document.activeElement.id === 'F1'")


def test_every_event_can_be_reached(open_page: Open, large_report: Path) -> None:
    page = open_page(large_report, "#events")
    page.locator("#events tr.opens").first.wait_for()
    assert page.locator("#events .count").inner_text() == "100,000 rows"
    assert page.locator("#events tbody tr").count() < 120
    page.get_by_role("searchbox", name="Filter Events").fill("process-end 4003")
    until(page, "document.querySelector('#events .count').textContent.startsWith('1 of')")
    page.evaluate("location.hash = 'event/4003-ab123:25000'")
    page.locator("#events tr.chosen", has_text="process-end").wait_for()


class TestThinning:
    def source(self, log: Log, *evidence: str) -> Source:
        found = [
            Finding(code="c", severity="info", title="", cause="", suggestion="", evidence=list(evidence))
        ]
        return Source(Run(log), found)

    def test_ends_of_each_kind_and_evidence_stay(self, large_log: Log) -> None:
        wanted = "4001-ab121:12000"
        kept = thinned(self.source(large_log, wanted), most=2_000)
        assert 1_000 < len(kept.records) <= 2_100
        ids = {record.id for record in kept.records}
        assert wanted in ids
        assert {"4000-ab120:1", "4003-ab123:25000"} <= ids
        assert {r.event.kind for r in kept.records} == {r.event.kind for r in large_log.records}

    def test_it_is_said_how_much_and_how_to_get_it(self, large_log: Log) -> None:
        (sentence,) = thinned(self.source(large_log), most=2_000).left_out
        assert "of 100,000 events are not in this file" in sentence
        assert "pass-run" in sentence
        assert "compdbg show RUN events" in sentence

    def test_a_run_that_fits_is_whole(self, large_log: Log) -> None:
        kept = thinned(self.source(large_log))
        assert len(kept.records) == EVENTS
        assert kept.left_out == []
