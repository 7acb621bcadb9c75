"""Fusions fire on the fixture models as often as the documentation says, and change no result."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

import tests.compiler.passes_only  # noqa: F401
from compdbg.compiler import CompilationConfig, set_forward_context, use_config
from fixtures.models import CausalLM, ModelConfig
from fixtures.models.attention import OPERATOR
from fixtures.models.metadata import BLOCK, metadata_of

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")]
PAGE = Path(__file__).parents[2] / "docs" / "fusions.md"
TINY = ModelConfig(layers=2, width=128, ffn=256, heads=4, kv_heads=2, head_dim=32)
QUANTS = [f"{how}_{kind}" for how in ("static", "per_token", "group128") for kind in ("fp8", "int8")]
FLAGS = {"quantised": ("fuse_norm_quant", "fuse_act_quant"), "plain": ("fuse_norm_quant", "fuse_act_quant")}


def documented(model: str) -> dict[str, int]:
    rows = re.findall(r"^\| (\w[\w ]*) \| `(\w+Pass)` \| (\d+) \|$", PAGE.read_text(), re.MULTILINE)
    return {name: int(count) for kind, name, count in rows if kind == model}


def decoder(config: ModelConfig, flags: tuple[str, ...], dtype: torch.dtype, backend: str) -> CausalLM:
    compilation = CompilationConfig(
        backend=backend,
        splitting_ops=[OPERATOR],
        pass_config=dict.fromkeys(flags, True),
        disable_cache=True,
    )
    with use_config(compilation):
        return CausalLM.random(config, dtype=dtype)


def hidden(model: CausalLM, n: int) -> torch.Tensor:
    blocks = list(range(1, -(-n // BLOCK) + 1))
    with set_forward_context(metadata_of([(0, n, blocks)], 20)):
        return model((torch.arange(n) * 7) % 512, torch.arange(n))


def compare(config: ModelConfig, flags: tuple[str, ...], sizes, dtype=torch.float32, backend="passes-only"):
    with torch.inference_mode():
        fused, plain = decoder(config, flags, dtype, backend), decoder(config, (), dtype, backend)
        for n in sizes:
            tolerance = 1e-3 if dtype is torch.float32 else 6e-2
            torch.testing.assert_close(hidden(fused, n), hidden(plain, n), rtol=tolerance, atol=tolerance)


def fired(run, names) -> dict[str, int]:
    return {name: run.fusion[name].matched for name in names}


@pytest.mark.parametrize("quant", ["static_fp8", "group128_int8"])
def test_a_quantised_decoder(quant, record_here):
    with record_here() as run:
        compare(TINY.with_(quant=quant), FLAGS["quantised"], (2, 1, 17, 300))
    wanted = documented("quantised")
    assert fired(run, wanted) == wanted
    assert {row.outcome for row in run.fusion if row.custom} <= {"fired", "superseded", "no-candidate"}


def test_a_plain_decoder_in_half_precision(record_here):
    with record_here() as run:
        compare(TINY, FLAGS["plain"], (2, 1, 65), torch.bfloat16)
    wanted = documented("plain")
    assert fired(run, wanted) == wanted


@pytest.mark.slow
@pytest.mark.parametrize("quant", QUANTS)
def test_every_way_to_quantise_at_every_size(quant, record_here):
    with record_here() as run:
        compare(TINY.with_(quant=quant), FLAGS["quantised"], range(1, 301))
    wanted = documented("quantised")
    assert fired(run, wanted) == wanted


@pytest.mark.slow
def test_inductors_own_code_around_the_fused_operators():
    config = TINY.with_(quant="per_token_int8")
    with torch.inference_mode():
        fused = decoder(config, FLAGS["quantised"], torch.float32, "inductor")
        plain = decoder(config, (), torch.float32, "passes-only")
        for n in (3, 1, 64, 300):
            a, b = hidden(fused, n), hidden(plain, n)
            # A value at the border of two steps may fall to either side.
            assert (a - b).abs().mean() < 0.02 * b.abs().mean()
