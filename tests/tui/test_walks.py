"""From a symptom to its cause in at most three keys from Home."""

from __future__ import annotations

from pathlib import Path

from tests.tui.conftest import Open
from tests.tui.runs import Builder, compiled_with_a_branch, recompiled, split_and_captured


async def test_a_fusion_that_did_not_fire(opened: Open, full_run: Path) -> None:
    async with opened(full_run) as tui:
        await tui.press("f", "enter")
        assert "✗ missed on graph 0/0" in tui.page
        assert "wanted    eps=1e-05 of demo.rms_norm.default" in tui.page
        assert "found     eps=1e-06" in tui.page
        assert "✗ rms_norm = torch.ops.demo.rms_norm.default(arg0_1, arg1_1, 1e-06)" in tui.page
        assert "✓ round_1 = torch.ops.aten.round.default(rms_norm)" in tui.page


async def test_wrong_output_at_batch_17_by_its_finding(opened: Open, full_run: Path) -> None:
    async with opened(full_run) as tui:
        assert "▸ F1  ✗ error" in tui.text
        await tui.press("enter", "enter")
        assert "compdbg › Home › F1 error guard-dropped-violated › Guards" in tui.lines[0]
        assert "▸ ✗ differs  0/0" in tui.text
        assert "false     ✗ 9 <= x.shape[0]" in tui.page
        assert "seen      x.shape[0] = 4 on call 3" in tui.page
        await tui.press("escape", "escape")
        assert "▸ F1  ✗ error" in tui.text


async def test_wrong_output_at_batch_17_by_its_size(opened: Open, full_run: Path) -> None:
    async with opened(full_run) as tui:
        await tui.press("s", "1", "7")
        (row,) = [line for line in tui.lines if line.startswith("▸")]
        assert row.split()[1:4] == ["17", "·", "compiled"]
        assert "runs as   padded from 17 to 32 rows, compiled for 1-" in tui.page
        assert "failed    piece_0 at size 32: aten._local_scalar_dense reads a value back" in tui.page


async def test_digits_go_to_the_next_larger_size_where_there_is_none(opened: Open, full_run: Path) -> None:
    async with opened(full_run) as tui:
        await tui.press("s", "1", "8")
        assert "size 18: the next is 32" in tui.lines[-1]
        assert any(line.startswith("▸") and "32" in line for line in tui.lines)


async def test_recompiles(opened: Open, tmp_path: Path) -> None:
    run = Builder(tmp_path / "run")
    run.start()
    recompiled(run)
    run.end()
    async with opened(run.folder) as tui:
        await tui.press("enter")
        assert "score was recompiled 5 times because size 1 of k varies" in tui.page
        await tui.press("enter")
        assert "compiled again, because these failed" in tui.page
        assert "1/0: tensor 'k' size mismatch at index 1. expected 2, actual 3" in tui.page


async def test_a_slow_start(opened: Open, full_run: Path) -> None:
    async with opened(full_run) as tui:
        await tui.press("t", "j", "enter")
        assert "took      26.0 s, 3.0 s of it itself" in tui.page
        assert "20.0 s  compile_kernels" in tui.page
        await tui.press("escape")
        assert "? compiling, in no phase" in tui.text


async def test_a_failed_capture(opened: Open, tmp_path: Path) -> None:
    run = Builder(tmp_path / "run")
    run.start()
    split_and_captured(run, fails_at=32)
    run.end()
    async with opened(run.folder) as tui:
        await tui.press("enter", "enter")
        assert "› Sizes" in tui.lines[0]
        assert "✗ no capture" in tui.text
        assert "op        aten._local_scalar_dense" in tui.page
        assert "serve.py:90  main" in tui.page
        assert "serve.py:61  forward" in tui.page


async def test_what_a_pass_did_is_two_keys_away(opened: Open, full_run: Path) -> None:
    async with opened(full_run) as tui:
        await tui.press("f", "j")
        assert "± changed" in tui.text
        assert "no change" not in tui.text
        assert '+     mul_1: "f32[s77, 64]" = torch.ops.aten.mul_1.Tensor(round_1, 0.5)' in tui.page
        await tui.press("u")
        assert "· no change  fuse_attention" in tui.text


async def test_what_changed_since_yesterday(opened: Open, tmp_path: Path) -> None:
    before, after = Builder(tmp_path / "runs" / "monday"), Builder(tmp_path / "runs" / "tuesday")
    for run in (before, after):
        run.start()
        compiled_with_a_branch(run)
    split_and_captured(after, fails_at=32)
    for run in (before, after):
        run.end()
    async with opened(after.folder) as tui:
        await tui.press("d")
        assert "▸ monday" in tui.text
        await tui.press("enter")
        assert "between monday and this run" in tui.text
        assert "capture-failed" in tui.text
