"""From a symptom to its cause in at most three keys from Home, on runs that were recorded."""

from __future__ import annotations

from pathlib import Path

from tests.tui.conftest import Open


async def test_a_fusion_that_did_not_fire(opened: Open, full_run: Path) -> None:
    async with opened(full_run) as tui:
        await tui.press("f", "enter")
        assert "✗ missed on graph 0/0" in tui.page
        assert "wanted    eps=1e-05 of demo.rms_norm.default" in tui.page
        assert "found     eps=1e-06" in tui.page
        assert (
            '✗ 3 rms_norm: "f32[s77, 64]" = torch.ops.demo.rms_norm.default(arg0_1, arg1_1, 1e-06)'
            in tui.page
        )
