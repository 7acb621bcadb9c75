"""Fusions that find their matches themselves say what they left, where, and by which code."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

import fixtures.models.attention  # noqa: F401
from compdbg import probe
from compdbg.compiler import CompilationConfig
from compdbg.compiler.effective import resolve
from compdbg.compiler.ops.quant import quantize_static
from compdbg.compiler.passes.at_stage import show_to_pass
from compdbg.compiler.passes.inductor_pass import pass_context
from compdbg.compiler.passes.pass_manager import PostGradPassManager, available_passes
from compdbg.compiler.ranges import STATIC
from compdbg.findings.collect import find_all

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")]
functional = torch.ops._c10d_functional


@pytest.fixture
def told(record_here):
    """Runs a fusion over a function's graph: its row's outcome and reason, and what is alarmed about.

    All inputs behind the first are weights.
    """

    def run_fusion(flag, function, *inputs):
        manager = PostGradPassManager()
        config = CompilationConfig(pass_config={flag: True})
        manager.configure(resolve(config, available_passes()).config)
        context = pass_context(STATIC, weights=frozenset(range(1, len(inputs))))
        with record_here() as run, probe.compiling_graph("G"), torch.no_grad(), context:
            show_to_pass(function, list(inputs), manager)
        kept = run.load()
        (row,) = [row for row in kept.fusion.rows if row.graph == "G" and row.custom]
        alarms = [(f.code, f.data["reason"]) for f in find_all(kept) if f.code == "fusion-missed"]
        assert alarms == ([("fusion-missed", row.reason)] if row.outcome == "missed" else [])
        return row.outcome, row.reason

    return run_fusion


x, square = torch.randn(4, 8), torch.randn(8, 8)
linear = torch.nn.functional.linear


@pytest.mark.parametrize(
    ("products", "wanted"),
    [
        (lambda x, w, b: (linear(x, w), linear(x, w + 1), linear(x, w * 2)), ("missed", "arg-mismatch")),
        (lambda x, w, b: (linear(x, w, b), linear(x, w, b * 2), linear(x, w)), ("missed", "target-mismatch")),
        (lambda x, w, b: (linear(x, w), linear(x, w * 2)), ("no-candidate", None)),
        (lambda x, w, b: (linear(x, w), linear(x * 2, w), linear(x * 3, w)), ("no-candidate", None)),
    ],
    ids=["a weight that is computed", "biases", "two products", "other inputs"],
)
def test_projections(told, products, wanted):
    assert told("fuse_qkv_projection", products, x, square, torch.randn(8)) == wanted


def test_three_projections_fire_and_four_are_too_many(told):
    weights = [torch.randn(8, 8) for _ in range(4)]

    def all_of(x, *weights):
        return tuple(linear(x, weight) for weight in weights)

    assert told("fuse_qkv_projection", all_of, x, *weights[:3]) == ("fired", None)
    assert told("fuse_qkv_projection", all_of, x, *weights) == ("missed", "multiple-users")


def attended(q, cache, scale, after=lambda out: out, out=None):
    out = torch.empty_like(q) if out is None else out
    torch.ops.fixtures.cached_attention(q, out, cache, 0.5)
    return quantize_static(after(out), scale, torch.float8_e4m3fn)


@pytest.mark.parametrize(
    ("forward", "wanted"),
    [
        (lambda q, c, s: attended(q, c, s, lambda out: out.flatten(1)), ("fired", None)),
        (lambda q, c, s: attended(q, c, s, lambda out: out.flatten(1) * 2), ("missed", "target-mismatch")),
        (lambda q, c, s: attended(q, c, s, out=q * 0.0), ("missed", "arg-mismatch")),
        (lambda q, c, s: quantize_static(q.sin(), s, torch.float8_e4m3fn), ("no-candidate", None)),
        (lambda q, c, s: q.sin(), ("no-candidate", None)),
    ],
    ids=["its output", "an op between", "memory that was there", "no attention", "no quantisation"],
)
def test_quantised_attention(told, forward, wanted):
    q, cache = torch.randn(4, 2, 8), torch.zeros(2, 4, 16, 2, 8)
    assert told("fuse_attn_quant", forward, q, cache, torch.tensor(0.1)) == wanted


def test_what_attention_gives_is_also_read_as_it_is(told):
    def forward(q, cache, scale):
        kept = []
        quantised = attended(q, cache, scale, lambda out: (kept.append(out.sin()), out)[1])
        return quantised, *kept

    q, cache = torch.randn(4, 2, 8), torch.zeros(2, 4, 16, 2, 8)
    assert told("fuse_attn_quant", forward, q, cache, torch.tensor(0.1)) == ("missed", "multiple-users")


def summed(x, kind="sum"):
    return functional.wait_tensor(functional.all_reduce(x, kind, "0"))


@pytest.mark.parametrize(
    ("forward", "wanted"),
    [
        (lambda x: summed(x.sin()) + summed(x.cos()), ("fired", None)),
        (lambda x: summed(x.sin()) + summed(x.cos(), "max"), ("missed", "arg-mismatch")),
        (lambda x: summed(x.sin()) + summed(x.cos().double()), ("missed", "dtype-mismatch")),
        (lambda x: summed(summed(x.sin()) + x), ("no-candidate", None)),
    ],
    ids=["alike", "another reduction", "another dtype", "one needs the other"],
)
def test_collectives(told, forward, wanted):
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        assert told("fuse_collectives", forward, x) == wanted
    finally:
        dist.destroy_process_group()
