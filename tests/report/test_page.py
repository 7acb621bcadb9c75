"""Keys, search, links, memory; without JavaScript; on paper; what the page may do, and who can read it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from compdbg.report.page.bundle import script, style
from tests.report.conftest import Open, in_sight, until


class TestKeys:
    def test_j_and_k_go_from_finding_to_finding(self, open_page: Open, serving_report: Path) -> None:
        page = open_page(serving_report)
        page.keyboard.press("j")
        until(page, "document.activeElement.id === 'F1'")
        page.keyboard.press("j")
        until(page, "document.activeElement.id === 'F2'")
        assert in_sight(page, "#F2")
        page.keyboard.press("k")
        until(page, "document.activeElement.id === 'F1'")
        assert page.evaluate("location.hash") == "#F1"

    def test_brackets_go_from_section_to_section(self, open_page: Open, serving_report: Path) -> None:
        page = open_page(serving_report)
        page.evaluate("location.hash = 'guards'")
        until(page, "document.activeElement.id === 'guards'")
        page.keyboard.press("[")
        until(page, "document.activeElement.id === 'fusion'")
        page.keyboard.press("]")
        until(page, "document.activeElement.id === 'guards'")
        assert in_sight(page, "#guards")

    def test_question_mark_lists_the_keys(self, open_page: Open, serving_report: Path) -> None:
        page = open_page(serving_report)
        page.keyboard.press("?")
        dialog = page.get_by_role("dialog", name="Keys")
        assert dialog.locator("kbd").all_inner_texts() == ["/", "j", "k", "]", "[", "?"]
        page.keyboard.press("Escape")
        assert not dialog.is_visible()

    def test_a_key_typed_into_a_field_is_text(self, open_page: Open, serving_report: Path) -> None:
        page = open_page(serving_report)
        page.keyboard.press("/")
        page.keyboard.type("j?")
        assert page.locator("#search").input_value() == "j?"
        assert page.evaluate("location.hash") == ""


class TestSearch:
    def test_it_finds_findings_rows_code_and_events(self, open_page: Open, serving_report: Path) -> None:
        page = open_page(serving_report)
        page.keyboard.press("/")
        page.keyboard.type("rms_norm")
        page.locator(".results .group").first.wait_for()
        groups = page.locator(".results .group").evaluate_all("all => all.map(one => one.ariaLabel)")
        assert {"Findings", "Fusion", "Code", "Events"} <= set(groups)

    def test_enter_goes_to_what_was_found(self, open_page: Open, serving_report: Path) -> None:
        page = open_page(serving_report)
        page.keyboard.press("/")
        page.keyboard.type("item waits for the device")
        page.locator(".results .hit").first.wait_for()
        page.keyboard.press("Enter")
        until(page, "location.hash === '#F2'")
        assert in_sight(page, "#F2")

    def test_a_line_of_code_is_shown_where_it_stands(self, open_page: Open, serving_report: Path) -> None:
        page = open_page(serving_report)
        page.keyboard.press("/")
        page.keyboard.type("cpp_fused_rms_norm_0(buf0")
        page.locator(".results .group[aria-label=Code] .hit").first.click()
        page.locator(".rows .here").wait_for()
        assert "cpp_fused_rms_norm_0(buf0, arg0_1)" in page.locator(".rows .here").inner_text()

    def test_all_of_a_group_filters_its_table(self, open_page: Open, serving_report: Path) -> None:
        page = open_page(serving_report)
        page.keyboard.press("/")
        page.keyboard.type("span-begin")
        page.locator(".hit.all", has_text="Events").click()
        until(page, "document.querySelector('#events .count')?.textContent.includes(' of ')")
        assert page.locator("#events .count").inner_text().startswith("11 of ")

    def test_what_is_nowhere_is_said(self, open_page: Open, serving_report: Path) -> None:
        page = open_page(serving_report)
        page.keyboard.press("/")
        page.keyboard.type("zebra")
        page.locator(".results .empty").wait_for()
        assert page.locator(".results .empty").inner_text() == "Nothing holds “zebra”."


class TestLinks:
    def test_to_a_finding_that_is_folded(self, open_page: Open, serving_report: Path) -> None:
        page = open_page(serving_report, "#F5")
        assert in_sight(page, "#F5")
        assert page.locator("#F5 .told").is_visible()

    def test_to_a_section_with_a_filter(self, open_page: Open, serving_report: Path) -> None:
        page = open_page(serving_report, "#frames/sample%20mode4")
        assert page.locator('.drawn[data-view="frames"] .count').inner_text() == "0 of 7 rows"
        page.evaluate("location.hash = 'frames/sample'")
        until(
            page,
            "document.querySelector('.drawn[data-view=\"frames\"] .count').textContent === '6 of 7 rows'",
        )

    def test_from_a_finding_to_its_evidence(self, open_page: Open, serving_report: Path) -> None:
        page = open_page(serving_report)
        page.locator("#F1 .evidence a").first.click()
        page.locator("#events tr.chosen").wait_for()
        assert "guard-violation" in page.locator("#events tr.chosen").inner_text()
        assert '"call": 17' in page.locator("#events .below pre").inner_text()

    def test_a_place_that_is_not_there_changes_nothing(self, open_page: Open, serving_report: Path) -> None:
        page = open_page(serving_report, "#F99/%E0%A4%A")
        assert page.locator("h1").inner_text() == "2 errors and 2 warnings."


class TestMemory:
    def test_a_filter_and_the_theme_stay(self, open_page: Open, serving_report: Path) -> None:
        page = open_page(serving_report)
        page.get_by_role("searchbox", name="Filter Guards").fill("SHAPE")
        page.get_by_role("button", name="Theme: Auto").click()
        page.reload()
        page.wait_for_selector("html.ready")
        assert page.get_by_role("searchbox", name="Filter Guards").input_value() == "SHAPE"
        assert page.locator('.drawn[data-view="guards"] .count').inner_text() == "1 of 3 rows"
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"

    def test_the_system_decides_at_first(self, open_page: Open, serving_report: Path) -> None:
        dark = open_page(serving_report, color_scheme="dark")
        assert dark.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 27)"


class TestCopying:
    def test_a_finding_as_text(self, open_page: Open, serving_report: Path) -> None:
        page = open_page(serving_report, permissions=["clipboard-read", "clipboard-write"])
        page.locator("#F1").get_by_role("button", name="Copy finding").click()
        page.locator("#F1").get_by_role("button", name="Copied").wait_for()
        copied = page.evaluate("navigator.clipboard.readText()")
        assert copied.startswith("F1  Error  guard-dropped-violated  serve.py:22\n")
        assert "Cost: wrong results" in copied

    def test_a_table(self, open_page: Open, serving_report: Path) -> None:
        page = open_page(serving_report, permissions=["clipboard-read", "clipboard-write"])
        page.locator('.drawn[data-view="config"]').get_by_role("button", name="Copy table").click()
        page.locator('.drawn[data-view="config"]').get_by_role("button", name="Copied").wait_for()
        head, *rows = page.evaluate("navigator.clipboard.readText()").split("\n")
        assert head == "key\trequested\teffective\tchanged by\twhy"
        assert len(rows) == 3


class TestWithoutJavaScript:
    def test_verdict_and_findings_read(self, open_page: Open, serving_report: Path) -> None:
        page = open_page(serving_report, ready=False, java_script_enabled=False)
        text = page.inner_text("body")
        assert "2 errors and 2 warnings." in text
        assert "was compiled for x.shape[0] <= 16; on call 17 x.shape[0] = 17" in text
        assert "Keep this guard" in text
        assert "if x.shape[0] > 16:" in text
        assert "compdbg show guards" in text
        assert page.locator("article.finding details").last.locator("summary").is_visible()

    def test_the_first_30_lines_say_what_it_is(self, serving_report: Path) -> None:
        head = "\n".join(serving_report.read_text().splitlines()[:30])
        assert "compdbg-report 1.0" in head
        assert "serve.py --port 8000" in head
        assert "verdict   2 errors and 2 warnings. Worst first:" in head
        assert "F2  error    serve.py:31: Decoder can't be captured at size 16" in head
        assert "torch 2.13.0+cpu" in head


class TestPolicy:
    def test_nothing_can_be_loaded_and_no_other_script_runs(self, browser, serving_report: Path) -> None:
        context = browser.new_context()
        page = context.new_page()
        refused: list[str] = []
        page.on("console", lambda said: refused.append(said.text) if said.type == "error" else None)
        page.goto(serving_report.as_uri())
        page.wait_for_selector("html.ready")
        page.evaluate(
            """() => {
              const script = document.createElement("script");
              try { script.textContent = "window.ran = 1"; } catch (error) { console.error(String(error)); }
              document.body.append(script);
              document.body.append(Object.assign(new Image(), { src: "https://example.invalid/x.png" }));
            }"""
        )
        fetched = page.evaluate("fetch('https://example.invalid/').then(() => 'loaded', () => 'refused')")
        assert fetched == "refused"
        assert page.evaluate("window.ran") is None
        assert any("Content Security Policy" in text for text in refused)
        context.close()

    def test_script_and_style_are_small(self) -> None:
        assert len(script().encode()) + len(style().encode()) < 400_000

    def test_no_handler_style_or_link_out_stands_in_the_page(self, serving_report: Path) -> None:
        text = serving_report.read_text()
        body = text[text.index("<body>") : text.index('<script type="text/plain"')]
        assert not re.search(r"\son\w+=|\sstyle=|javascript:", body)
        assert set(re.findall(r'(?:href|src)="([^"#])', body)) == set()


class TestReading:
    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_axe_finds_no_serious_fault(self, open_page: Open, serving_report: Path, scheme: str) -> None:
        axe = pytest.importorskip(
            "axe_playwright_python.sync_playwright", reason="needs axe-playwright-python"
        )
        page = open_page(serving_report, "#events", color_scheme=scheme)
        page.locator("#events .frame").wait_for()
        found = axe.Axe().run(page).response["violations"]
        serious = [
            (v["id"], [n["html"][:120] for n in v["nodes"][:3]])
            for v in found
            if v["impact"] in ("serious", "critical")
        ]
        assert serious == []

    def test_a_phone_needs_no_sideways_scrolling(self, open_page: Open, serving_report: Path) -> None:
        page = open_page(serving_report, viewport={"width": 390, "height": 840})
        assert page.evaluate("document.documentElement.scrollWidth") <= 390

    def test_on_paper_every_finding_is_open(self, open_page: Open, serving_report: Path) -> None:
        page = open_page(serving_report)
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        page.emulate_media(media="print")
        assert page.locator("article.finding .told").evaluate_all(
            "all => all.every(one => one.checkVisibility())"
        )
        assert not page.locator("nav.side").is_visible()
