"""The fused kernels compile for a GPU in every form that is launched: Triton's interpreter is laxer."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton")

from compdbg.compiler.ops import activation_kernels, norm_kernels, rope_kernels
from tests.compiler.kernel_compiles import Compiled

BF16, FP8, INT8 = torch.bfloat16, torch.float8_e4m3fn, torch.int8
EPS = 1e-5
scale = torch.tensor(0.02)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))


@pytest.fixture
def norm(monkeypatch):
    return put(monkeypatch, norm_kernels, "_rms_norm")


@pytest.fixture
def silu(monkeypatch):
    return put(monkeypatch, activation_kernels, "_silu_mul")


@pytest.fixture
def rope(monkeypatch):
    return put(monkeypatch, rope_kernels, "_rope")


def put(monkeypatch, module, name):
    stand_in = Compiled(getattr(module, name))
    monkeypatch.setattr(module, name, stand_in)
    return stand_in


@pytest.mark.parametrize(("rows", "width"), [(3, 256), (64, 256), (3, 333)], ids=["few", "many", "odd"])
def test_norms(norm, rows, width):
    x = torch.empty(rows, width, dtype=BF16)
    weight = x[0]
    for style in (0, 2):
        norm_kernels.add_rms_norm(x, x, weight, EPS, style)
        norm_kernels.rms_norm_static_quant(x, weight, scale, EPS, style, FP8)
    norm_kernels.add_rms_norm_static_quant(x, x, weight, scale, EPS, 0, INT8)
    norm_kernels.rms_norm_dynamic_quant(x, weight, EPS, 0, 0, INT8)
    norm_kernels.add_rms_norm_dynamic_quant(x, x, weight, EPS, 0, 0, FP8)
    if width % 128 == 0:
        norm_kernels.add_rms_norm_dynamic_quant(x, x, weight, EPS, 0, 128, FP8)
    assert len(norm.ptx) == (8 if width % 128 == 0 else 7)


@pytest.mark.parametrize(("rows", "width"), [(3, 256), (64, 256), (3, 333)], ids=["few", "many", "odd"])
def test_activations(silu, rows, width):
    x = torch.empty(rows, width, dtype=BF16)
    for dtype in (FP8, INT8):
        activation_kernels.silu_mul_static_quant(x, x, scale, dtype)
        activation_kernels.silu_mul_dynamic_quant(x, x, 0, dtype)
        if width % 128 == 0:
            activation_kernels.silu_mul_dynamic_quant(x, x, 128, dtype)
    assert len(silu.ptx) == (6 if width % 128 == 0 else 4)


@pytest.mark.parametrize("interleaved", [False, True], ids=["neox", "gptj"])
@pytest.mark.parametrize(("heads", "head_dim"), [(8, 64), (6, 80)])
def test_rope(rope, interleaved, heads, head_dim):
    query = torch.empty(5, heads, head_dim, dtype=BF16)
    key = value = query[:, :2]
    angles = torch.empty(5, 1, head_dim, dtype=BF16)
    weight = angles[0, 0]
    cache = torch.empty(2, 3, 16, 2, head_dim, dtype=BF16)
    slots = torch.arange(5)
    rope_kernels.update_kv_cache(key, value, cache, slots)
    rope_kernels.rotate_update_kv_cache(key, value, angles, angles, cache, slots, interleaved)
    rope_kernels.rotate_both_update_kv_cache(query, key, value, angles, angles, cache, slots, interleaved)
    in_fp8 = cache.to(FP8)
    rope_kernels.rotate_both_update_kv_cache(query, key, value, angles, angles, in_fp8, slots, interleaved)
    for style in (0, 2):
        rope_kernels.norm_rotate(query, weight, angles, angles, EPS, style, interleaved)
        rope_kernels.norm_rotate_both(query, key, weight, weight, angles, angles, EPS, style, interleaved)
    assert len(rope.ptx) == 8


@pytest.mark.parametrize("dtype", [BF16, FP8, INT8], ids=str)
def test_attention(monkeypatch, dtype):
    from fixtures.models import attention_kernels
    from fixtures.models.metadata import metadata_of

    attend = put(monkeypatch, attention_kernels, "_attend")
    query, cache = torch.empty(2, 8, 64, dtype=BF16), torch.empty(2, 9, 16, 2, 64, dtype=BF16)
    metadata = metadata_of([(20, 1, [1, 2]), (3, 1, [3])], 2)
    given = None if dtype is BF16 else scale
    out = torch.empty_like(query, dtype=dtype)
    attention_kernels.triton_cached_attention(query, out, cache, metadata, 0.1, given)
    assert len(attend.ptx) == 1


def test_rows_are_read_once_and_sixteen_bytes_at_a_time(norm):
    x = torch.empty(64, 4096, dtype=BF16)
    norm_kernels.rms_norm_static_quant(x, x[0], scale, EPS, 0, FP8)
    reads = [line for line in norm.ptx[0].splitlines() if "ld.global" in line]
    assert [".v4.b32" in line for line in reads] == [True] * 8 + [
        False
    ]  # quarters of x and weight; the scale
    assert "cvt.rn.satfinite.e4m3x2.f32" in norm.ptx[0]
