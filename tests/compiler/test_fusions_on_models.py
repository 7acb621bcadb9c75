"""Fusions fire on the fixture models as often as the documentation says, and change no result."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest
import torch

import tests.compiler.passes_only  # noqa: F401
from compdbg.compiler import CompilationConfig, set_forward_context, use_config
from compdbg.compiler.passes import pass_manager
from compdbg.findings.collect import find_all
from fixtures.models import CausalLM, ModelConfig
from fixtures.models.attention import CACHED, OPERATOR
from fixtures.models.metadata import BLOCK, metadata_of

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")]
PAGE = Path(__file__).parents[2] / "docs" / "fusions.md"
TINY = ModelConfig(layers=2, width=128, ffn=256, heads=4, kv_heads=2, head_dim=32)
QUANTS = [f"{how}_{kind}" for how in ("static", "per_token", "group128") for kind in ("fp8", "int8")]
FLAGS = {
    "quantised": ("fuse_norm_quant", "fuse_act_quant"),
    "plain": ("fuse_norm_quant", "fuse_act_quant", "fuse_qkv_projection", "enable_qk_norm_rope_fusion"),
    "cache update in the graph": ("fuse_rope_kvcache",),
    "turned in place": ("fuse_rope_kvcache",),
    "quantised products": ("fuse_qkv_projection", "fuse_rope_kvcache"),
    "norms of queries and keys": ("enable_qk_norm_rope_fusion",),
    "not split": ("fuse_attn_quant", "fuse_norm_quant", "fuse_act_quant", "fuse_rope_kvcache"),
}
also_packed = pytest.mark.parametrize("packed", [False, True], ids=["apart", "packed"])
packed_if_slow = pytest.mark.parametrize(
    "packed", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["apart", "packed"]
)


def called(model: str, packed: bool) -> str:
    """What the documentation calls a model whose projections are packed."""
    return f"packed {model}" if packed else model


EVERY_SIZE = {
    "plain": ({}, (OPERATOR,)),
    "norms of queries and keys": ({"qk_norm": True}, (OPERATOR,)),
    "cache update in the graph": ({}, (CACHED,)),
    "turned in place": ({"packed": True, "turned_in_place": True}, (CACHED,)),
    "quantised products": ({"quant": "static_fp8"}, (CACHED,)),
    "not split": ({"quant": "static_fp8"}, ()),
}
"""How the decoder is changed, and where it is split."""


def documented(model: str) -> dict[str, int]:
    rows = re.findall(r"^\| (\w[\w ]*) \| `(\w+Pass)` \| (\d+) \|$", PAGE.read_text(), re.MULTILINE)
    return {name: int(count) for kind, name, count in rows if kind == model}


def decoder(
    config: ModelConfig,
    flags: tuple[str, ...],
    dtype: torch.dtype,
    backend: str,
    splitting_ops: tuple[str, ...] = (OPERATOR,),
) -> CausalLM:
    compilation = CompilationConfig(
        backend=backend,
        splitting_ops=list(splitting_ops),
        pass_config=dict.fromkeys(flags, True),
        disable_cache=True,
    )
    with use_config(compilation):
        return CausalLM.random(config, dtype=dtype)


def hidden(model: CausalLM, n: int, *, slots: bool = False, device: str = "cpu") -> torch.Tensor:
    metadata = metadata_of([(0, n, list(range(1, -(-n // BLOCK) + 1)))], 20, device)
    with set_forward_context(metadata):
        positions = torch.arange(n, device=device)
        return model((positions * 7) % 512, positions, metadata.slots if slots else None)


def compare(
    config: ModelConfig,
    flags: tuple[str, ...],
    sizes: Iterable[int],
    dtype: torch.dtype = torch.float32,
    *,
    slots: bool = False,
    splitting_ops: tuple[str, ...] = (OPERATOR,),
) -> None:
    tolerance = 1e-3 if dtype is torch.float32 else 6e-2
    with torch.inference_mode():
        fused, plain = (decoder(config, some, dtype, "passes-only", splitting_ops) for some in (flags, ()))
        for n in sizes:
            a, b = hidden(fused, n, slots=slots), hidden(plain, n, slots=slots)
            torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)
            for one, other in zip(fused.model.layers, plain.model.layers, strict=True):
                caches = one.self_attn.kv_cache, other.self_attn.kv_cache
                torch.testing.assert_close(*caches, rtol=tolerance, atol=tolerance)


def fired(run, names) -> dict[str, int]:
    return {name: run.fusion[name].matched for name in names}


def did(run, name) -> dict[str, int]:
    """The ops that came and went by a pass, all that it does after its matcher with it."""
    rows = [row for row in run.load().passes if row.name == name]
    whole = {(row.graph, row.index) for row in rows}
    total: Counter[str] = Counter()
    for row in rows:
        if (row.graph, row.within) not in whole:
            total.update(row.op_delta)
    return {op: count for op, count in total.items() if op != "getitem"}


@also_packed
@pytest.mark.parametrize("quant", ["group128_fp8"])
def test_a_quantised_decoder(quant, packed, record_here):
    with record_here() as run:
        compare(TINY.with_(quant=quant, packed=packed), FLAGS["quantised"], (2, 1, 17))
    wanted = documented(called("quantised", packed))
    assert fired(run, wanted) == wanted
    assert {row.outcome for row in run.fusion if row.custom} <= {"fired", "superseded", "no-candidate"}


@packed_if_slow
def test_a_plain_decoder_in_half_precision(packed, record_here):
    with record_here() as run:
        compare(TINY.with_(packed=packed), FLAGS["plain"], (2, 1, 65), torch.bfloat16)
    wanted = documented(called("plain", packed))
    assert fired(run, wanted) == wanted
    assert run.fusion["QKNormRoPEFusionPass"].outcome == "no-candidate"
    assert [f.code for f in find_all(run.load()) if f.severity != "info"] == []


@pytest.mark.slow
@also_packed
@pytest.mark.parametrize("interleaved", [False, True], ids=["neox", "gptj"])
def test_a_decoder_that_writes_to_its_cache(interleaved, packed, record_here):
    model = "cache update in the graph"
    with record_here() as run:
        config = TINY.with_(interleaved=interleaved, packed=packed)
        compare(config, FLAGS[model], (2, 1, 65), slots=True, splitting_ops=(CACHED,))
    wanted = documented(called(model, packed))
    assert fired(run, wanted) == wanted
    assert [f.code for f in find_all(run.load()) if f.severity != "info"] == []


@pytest.mark.parametrize("tidied", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_decoder_that_turns_queries_and_keys_where_they_stand(tidied, record_here, monkeypatch):
    model = "turned in place"
    if not tidied:
        monkeypatch.setattr(pass_manager, "_BEFORE_FUSIONS", ())
    with record_here() as run:
        config = TINY.with_(packed=True, turned_in_place=True)
        compare(config, FLAGS[model], (2, 1, 65) if tidied else (2,), slots=True, splitting_ops=(CACHED,))
    if tidied:
        assert fired(run, documented(model)) == documented(model)
        assert [f.code for f in find_all(run.load()) if f.severity != "info"] == []
        assert did(run, "RoPEKVCacheFusionPass") == {
            "compdbg.rotate.default": -4,
            "auto_functionalized_v2(compdbg.update_kv_cache.default)": -2,
            "auto_functionalized_v2(compdbg.rotate_both_update_kv_cache.default)": 2,
        }
    else:
        assert fired(run, documented(model)) == {"RoPEKVCacheFusionPass": 0}


@pytest.mark.parametrize("quant", ["static_fp8", pytest.param("per_token_int8", marks=pytest.mark.slow)])
def test_a_decoder_whose_quantised_products_are_one(quant, record_here):
    model = "quantised products"
    with record_here() as run:
        compare(TINY.with_(quant=quant), FLAGS[model], (2, 1, 65), slots=True, splitting_ops=(CACHED,))
    assert fired(run, documented(model)) == documented(model)
    assert [f.code for f in find_all(run.load()) if f.severity != "info"] == []


@also_packed
def test_a_decoder_with_norms_of_queries_and_keys(packed, record_here):
    model = "norms of queries and keys"
    with record_here() as run:
        compare(TINY.with_(qk_norm=True, packed=packed), FLAGS[model], (2, 1))
    wanted = documented(called(model, packed))
    assert fired(run, wanted) == wanted
    assert did(run, "QKNormRoPEFusionPass") == {
        "compdbg.rms_norm.default": -4,
        "compdbg.rotate.default": -4,
        "compdbg.norm_rotate_both.default": 2,
    }
    assert [f.code for f in find_all(run.load()) if f.severity != "info"] == []


@also_packed
@pytest.mark.parametrize("kind", ["fp8", pytest.param("int8", marks=pytest.mark.slow)])
def test_all_that_can_be_fused_where_attention_does_not_split(kind, packed, record_here):
    model = "not split"
    with record_here() as run:
        config = TINY.with_(quant=f"static_{kind}", packed=packed)
        compare(config, FLAGS[model], (2, 1, 65), slots=True, splitting_ops=())
    wanted = documented(called(model, packed))
    assert fired(run, wanted) == wanted
    assert [f.code for f in find_all(run.load()) if f.severity != "info"] == []


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("model", EVERY_SIZE)
def test_other_fusions_at_every_size(model, dtype, record_here):
    changes, splitting_ops = EVERY_SIZE[model]
    config, slots = TINY.with_(**changes), OPERATOR not in splitting_ops
    with record_here() as run:
        compare(config, FLAGS[model], range(1, 301), dtype, slots=slots, splitting_ops=splitting_ops)
    assert fired(run, documented(model)) == documented(model)


@pytest.mark.slow
@also_packed
@pytest.mark.parametrize("quant", QUANTS)
def test_every_way_to_quantise_at_every_size(quant, packed, record_here):
    with record_here() as run:
        compare(TINY.with_(quant=quant, packed=packed), FLAGS["quantised"], range(1, 301))
    wanted = documented(called("quantised", packed))
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
