"""From the first screen to the cause: five walks, each in at most three clicks, in a real browser."""

from __future__ import annotations

from pathlib import Path

from tests.report.conftest import Open, in_sight


def finding(page, code: str):
    return page.locator("article.finding", has=page.locator(f".code:text-is('{code}')"))


def test_a_fusion_that_did_not_fire(open_page: Open, serving_report: Path) -> None:
    page = open_page(serving_report)
    finding(page, "fusion-missed").get_by_role("link", name="Show in Fusion").click()
    assert in_sight(page, ".near-miss.lit")
    shown = page.locator(".near-miss.lit tr.differs")
    assert (
        shown.locator(".side.pattern").inner_text() == "rms_norm = serve.rms_norm.default(x, weight, 1e-05)"
    )
    assert "serve.rms_norm.default(view, arg1_1, 1e-06)" in shown.locator(".side.graph").inner_text()
    assert page.locator(".near-miss.lit .difference dd").all_inner_texts() == [
        "eps=1e-05 of serve.rms_norm.default", "eps=1e-06", "arg-mismatch",
    ]  # fmt: skip


def test_wrong_output_at_batch_17(open_page: Open, serving_report: Path) -> None:
    page = open_page(serving_report)
    page.locator(".worst a").click()
    assert in_sight(page, "#F1")
    assert page.locator("#F1 .source .here code").inner_text().strip() == "if x.shape[0] > 16:"
    page.locator("#F1").get_by_role("link", name="Show in Guards and recompiles").click()
    row = page.locator('.drawn[data-view="guards"] tr.opens')
    assert row.count() == 1
    row.click()
    detail = page.locator('.drawn[data-view="guards"] .below').inner_text()
    assert '"call":17' in detail
    assert "x.shape[0] = 17" in detail


def test_recompiles(open_page: Open, serving_report: Path) -> None:
    page = open_page(serving_report)
    finding(page, "recompiles").get_by_role("link", name="Show in Guards and recompiles").click()
    assert in_sight(page, "#guards")
    rows = page.locator('.drawn[data-view="frames"] tbody tr', has_text="sample")
    assert rows.count() == 6
    assert "config.mode" in rows.nth(5).inner_text()


def test_slow_start_up(open_page: Open, serving_report: Path) -> None:
    page = open_page(serving_report)
    page.get_by_role("navigation").get_by_role("link", name="Time").click()
    longest = page.locator(".bar", has_text="compile_file")
    assert longest.get_attribute("aria-label").startswith("compile_file, 38.2 s, of which itself 38.2 s")
    page.locator(".bar", has_text="GraphLowering.codegen").click()
    assert "GraphLowering.codegen, 44.7 s" in page.locator(".crumbs").inner_text()
    page.get_by_role("button", name="All", exact=True).click()
    assert page.locator(".bar").count() > 6


def test_a_failed_capture(open_page: Open, serving_report: Path) -> None:
    page = open_page(serving_report)
    finding(page, "capture-failed").get_by_role("link", name="Show in Sizes and captures").click()
    page.locator("button.size.failed").click()
    assert in_sight(page, "#sizes .drawing .below")
    detail = page.locator("#sizes .drawing .below").inner_text()
    assert "Why not captured\nsync" in detail
    assert "Calls without a capture\n22" in detail


def test_the_split_as_a_chain(open_page: Open, serving_report: Path) -> None:
    page = open_page(serving_report, "#splits")
    names = page.locator(".chain .piece-name").all_inner_texts()
    assert names == [f"piece {n}" for n in range(9)]
    assert page.locator(".chain .twin .piece-what").all_inner_texts() == ["as piece 2", "as piece 2"]
    page.locator(".chain .piece").first.click()
    assert "x: float32[s0, 64]" in page.locator("#splits .drawing .below").inner_text()


def test_what_a_pass_changed(open_page: Open, serving_report: Path) -> None:
    page = open_page(serving_report, "#code")
    page.locator(".rows.diff").wait_for()
    assert page.locator(".step[aria-pressed=true] .step-name").inner_text() == "NoOpEliminationPass"
    assert "aten.view.default" in page.locator(".diff .removed").first.inner_text()
    assert page.locator(".diff .added").count() == 1
    page.locator("button.fold").last.click()
    assert page.locator("button.fold").count() == 0
    page.locator(".step", has_text="the code that Inductor wrote").click()
    assert page.locator(".rows .t-keyword", has_text="import").first.is_visible()


def test_a_drawing_can_be_made_larger_and_read_as_text(open_page: Open, serving_report: Path) -> None:
    page = open_page(serving_report, "#fusion")
    figure = page.locator("#fusion figure").first
    height = figure.locator("table").bounding_box()["height"]
    figure.get_by_role("button", name="Larger").click()
    assert figure.locator("table").bounding_box()["height"] > height
    assert figure.locator(".level").inner_text() == "125 %"
    figure.get_by_text("As text").click()
    assert "≠ rms_norm = serve.rms_norm.default(x, weight, 1e-05)" in figure.locator("pre").inner_text()
