"""The walks again, on programs that are run and recorded here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import compdbg  # noqa: E402
from compdbg.compiler import (  # noqa: E402
    CompilationConfig,
    CUDAGraphMode,
    support_torch_compile,
    use_config,
)
from tests.integration.fusion_programs import W, X, compiled_with, ops, rms_pass  # noqa: E402
from tests.integration.guards_here import compiled  # noqa: E402
from tests.tui.conftest import Open  # noqa: E402

pytestmark = pytest.mark.torch


def doubled_when_large(x: Any) -> Any:
    return x * 2 if x.shape[0] > 16 else x + 1


def score(q: Any, k: Any) -> Any:
    return q.sum() + k.sum()


@torch.library.custom_op("tui_tests::peak", mutates_args=())
def peak(x: torch.Tensor) -> torch.Tensor:
    return x * x.max().item()


@peak.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


@support_torch_compile(dynamic_arg_dims={"x": 0})
class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.tui_tests.peak(x) + 1


@pytest.fixture(scope="module", autouse=True)
def _reset() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One program with four things wrong with it."""
    folder = tmp_path_factory.mktemp("recorded") / "run"
    with compdbg.record(folder), torch.no_grad():
        function = compiled(doubled_when_large, dynamic=True)
        for batch in (8, 4, 17):
            function(torch.ones(batch, 4))
        again = torch.compile(score, backend="eager", dynamic=False)
        for width in range(2, 8):
            again(torch.ones(2), torch.ones(3, width))
        fuse = rms_pass("RMSRound")
        compiled_with(
            lambda x, w: ops.rms(x, w, 1e-6).round(), X, W, passes=[lambda gm: fuse.apply(gm.graph)]
        )
        config = CompilationConfig(
            backend="eager", cudagraph_mode=CUDAGraphMode.FULL, cudagraph_capture_sizes=[4]
        )
        with use_config(config):
            model = Model()
            for _ in range(4):
                model(torch.ones(3, 4))
    return folder


async def test_wrong_output_at_batch_17(opened: Open, faulty: Path) -> None:
    async with opened(faulty, (120, 40)) as tui:
        await tui.press("g")
        assert "✗ differs" in tui.lines[[line.startswith("▸") for line in tui.lines].index(True)]
        assert "x.shape[0] = 17 on call 3" in tui.page
        assert "return x * 2 if x.shape[0] > 16 else x + 1" in tui.page
        await tui.press("enter", "enter")
        assert "state" in tui.page
        assert "✗ false" in tui.page


async def test_recompiles(opened: Open, faulty: Path) -> None:
    async with opened(faulty, (120, 40)) as tui:
        await tui.press("slash")
        await tui.type("score")
        await tui.press("enter")
        assert "score was recompiled 5 times because size 1 of k varies" in tui.page
        await tui.press("enter")
        assert "› Guards" in tui.lines[0]
        assert "compiled again, because these failed" in tui.page


async def test_a_fusion_that_did_not_fire(opened: Open, faulty: Path) -> None:
    async with opened(faulty, (120, 40)) as tui:
        await tui.press("f", "enter")
        assert "✗ missed" in tui.page
        assert "eps=1e-05 of fusion_tests.rms.default" in tui.page
        assert "eps=1e-06" in tui.page


async def test_a_failed_capture(opened: Open, faulty: Path) -> None:
    async with opened(faulty, (120, 40)) as tui:
        await tui.press("s", "4")
        assert "✗ no capture" in tui.text
        assert "op        aten.item.default" in tui.page
        assert "return x * x.max().item()" in tui.page


async def test_a_slow_start(opened: Open, faulty: Path) -> None:
    async with opened(faulty, (120, 40)) as tui:
        await tui.press("t", "enter")
        assert "began" in tui.page
        assert "█" in tui.text or "phase" in tui.text
