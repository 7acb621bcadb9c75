"""Nothing that a program says becomes markup, script or a link, wherever it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from compdbg.report.contents import contents
from compdbg.report.markdown import markdown
from compdbg.store.locate import open_run
from tests.report.conftest import Open, write_report
from tests.report.hostile import hostile_run

_SURVEY = """() => {
  const all = [...document.querySelectorAll("*")];
  const attributes = all.flatMap((one) => [...one.attributes].map((a) => [one.tagName, a.name, a.value]));
  return {
    scripts: document.scripts.length,
    strange: all.filter((one) => /^(IFRAME|IMG|OBJECT|EMBED|BASE|FORM)$/i.test(one.tagName)).length,
    handlers: attributes.filter(([, name]) => name.startsWith("on")),
    links: attributes.filter(([, name, value]) => /^(href|src|action)$/.test(name) && !value.startsWith("#")),
    pwned: window.pwned ?? null,
    unseen: /[\\u202a-\\u202e\\u2066-\\u2069\\u0000-\\u0008\\u200b]/.test(document.body.innerText),
  };
}"""


@pytest.fixture(scope="module")
def hostile_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = hostile_run(tmp_path_factory.mktemp("hostile") / "run")
    return write_report(run, run.parent / "bug.html", redact=False)


def clean(survey: dict) -> dict:
    return {**survey, "scripts": 5, "strange": 0, "handlers": [], "links": [], "pwned": None, "unseen": False}


def test_the_page_holds_only_its_own_scripts_and_links(open_page: Open, hostile_report: Path) -> None:
    page = open_page(hostile_report)
    found = page.evaluate(_SURVEY)
    assert found == clean(found)


def test_nor_after_everything_was_opened(open_page: Open, hostile_report: Path) -> None:
    page = open_page(hostile_report)
    page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    for section in ("fusion", "guards", "sizes", "splits", "cache", "time", "code", "events", "environment"):
        page.evaluate("name => (location.hash = name)", section)
        page.wait_for_timeout(30)
    page.locator("#events .frame").wait_for()
    for selector in ("tr.opens", ".piece", ".size", ".step", ".bar"):
        page.evaluate(
            "selector => [...document.querySelectorAll(selector)].slice(0, 40).forEach((one) => "
            "one.dispatchEvent(new MouseEvent('click', { bubbles: true })))",
            selector,
        )
    page.locator("#search").fill("window.pwned")
    page.locator(".results .hit").first.wait_for()
    found = page.evaluate(_SURVEY)
    assert found == clean(found)


def test_nor_without_javascript(open_page: Open, hostile_report: Path) -> None:
    page = open_page(hostile_report, ready=False, java_script_enabled=False)
    assert "</script><script>window.pwned=1</script>" in page.inner_text("body")
    assert page.locator("iframe, img, form").count() == 0


def test_a_link_into_the_page_can_not_leave_it(open_page: Open, hostile_report: Path) -> None:
    page = open_page(hostile_report, "#javascript:window.pwned=1")
    page.evaluate("location.hash = 'event/</script>'")
    page.locator("#events .frame").wait_for()
    assert page.evaluate("window.pwned ?? null") is None


def test_the_data_blocks_hold_base64_and_nothing_else(hostile_report: Path) -> None:
    text = hostile_report.read_text()
    blocks = re.findall(r'<script type="text/plain" id="compdbg-\w+">(.*?)</script>', text, re.DOTALL)
    assert len(blocks) == 4
    assert all(re.fullmatch(r"[A-Za-z0-9+/=\n]+", block) for block in blocks)


def test_redacted_it_can_be_written_too(tmp_path: Path) -> None:
    assert contents(open_run(f"{hostile_run(tmp_path / 'run')}/")).redactions


def test_the_head_can_not_be_ended_by_the_program(hostile_report: Path) -> None:
    head = hostile_report.read_text().split("-->")[0]
    assert "compdbg-report" in head
    assert "verdict" in head
    assert "<script" not in head.partition("<!--")[2]


def test_a_line_of_a_megabyte_is_cut_and_its_length_said(open_page: Open, hostile_report: Path) -> None:
    page = open_page(hostile_report)
    assert (
        page.evaluate(
            "Math.max(...[...document.querySelectorAll('td, p, h3')].map((e) => e.innerText.length))"
        )
        < 20_000
    )
    assert hostile_report.stat().st_size < 3_000_000


def test_the_run_reads_back_whole(hostile_report: Path) -> None:
    log = open_run(str(hostile_report))
    spans = [r for r in log.records if r.event.kind == "span"]
    assert any(r.event.name == "</script><script>window.pwned=1</script>" for r in spans)
    assert any(len(r.event.name) == 1_000_000 for r in spans)


def test_markdown_holds_no_markup_mention_or_link_of_the_program(tmp_path: Path) -> None:
    run = hostile_run(tmp_path / "run")
    text = markdown(contents(open_run(f"{run}/")))
    outside = re.sub(r"(?ms)^(`{3,}).*?^\1$", "", text)
    outside = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", outside)
    assert not re.search(r"(?<!\\)<(?!/?(?:details|summary|sub)>)", outside)
    assert len(text) < 60_000
