"""A decoder spread over ranks: the same results as the whole, and the same decisions on every rank."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from compdbg.compiler import CompilationConfig
from compdbg.compiler.effective import resolve
from compdbg.compiler.passes.fusion.async_tp import AsyncTPPass
from compdbg.compiler.passes.fusion.collective_fusion import CollectiveFusionPass
from compdbg.compiler.passes.pass_manager import PostGradPassManager, available_passes
from compdbg.compiler.ranges import Range

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")]
ROOT = Path(__file__).parents[2]
functional = torch.ops._c10d_functional


NO_MULTICAST = {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1"}
QUANT_FLAGS = ("fuse_norm_quant", "fuse_act_quant", "fuse_collectives")
FLAGS = {
    "over ranks": ("fuse_allreduce_rms", *QUANT_FLAGS),
    "over ranks quantised": ("fuse_allreduce_rms", *QUANT_FLAGS),
    "tokens shared out": ("enable_sp", "fuse_gemm_comms", *QUANT_FLAGS),
    "tokens shared out quantised": ("enable_sp", "fuse_gemm_comms", *QUANT_FLAGS),
}


def on_ranks(ranks: int, folder: Path, quant: str, flags: tuple[str, ...], *more: str) -> list[dict]:
    command = [sys.executable, "-W", "ignore", "-m", "tests.compiler.ranks_program"]
    processes = [
        subprocess.Popen(
            [*command, str(rank), str(ranks), str(folder), quant, ",".join(flags), *more],
            cwd=ROOT,
            env={**os.environ, **NO_MULTICAST, "RANK": str(rank), "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(ranks)
    ]
    try:
        said = [process.communicate(timeout=600) for process in processes]
    finally:
        for process in processes:
            process.kill()
    failed = [err[-3000:] for process, (_, err) in zip(processes, said, strict=True) if process.returncode]
    assert not failed, failed[0]
    return [json.loads(out.splitlines()[-1]) for out, _ in said]


def documented(model: str) -> dict[str, int]:
    text = (ROOT / "docs" / "fusions.md").read_text()
    rows = re.findall(r"^\| (\w[\w ]*) \| `(\w+Pass)` \| (\d+) \|$", text, re.MULTILINE)
    return {name: int(count) for kind, name, count in rows if kind == model}


def also(*case):
    return pytest.param(*case, marks=pytest.mark.slow)


@pytest.mark.parametrize("model", ["over ranks", "tokens shared out"])
@pytest.mark.parametrize(
    ("ranks", "quant", "tolerance"),
    [
        (2, "plain", 1e-5),
        also(4, "plain", 1e-5),
        also(2, "packed+plain", 1e-5),
        also(2, "per_token_int8", 0.05),
        also(2, "static_fp8", 0.05),
        also(2, "packed+static_fp8", 0.05),
    ],
)
def test_a_decoder_over_ranks(model, ranks, quant, tolerance, tmp_path):
    model += "" if quant.endswith("plain") else " quantised"
    agree_as_documented(model, on_ranks(ranks, tmp_path, quant, FLAGS[model]), tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("quant", ["plain", "static_fp8"])
@pytest.mark.parametrize("model", ["over ranks", "tokens shared out"])
def test_a_decoder_over_ranks_at_every_size(model, quant, tmp_path):
    """Any number of tokens: shares of two ranks are padded where it is odd."""
    model += "" if quant == "plain" else " quantised"
    answers = on_ranks(2, tmp_path, quant, FLAGS[model], "every-size")
    assert {len(answer["apart"]) for answer in answers} == {300}
    agree_as_documented(model, answers, 1e-5 if quant == "plain" else 0.05)


@pytest.mark.gpu
@pytest.mark.parametrize("model", ["over ranks", "tokens shared out"])
@pytest.mark.parametrize(
    ("quant", "tolerance"),
    [("plain", 1e-5), ("static_fp8", 0.05), ("per_token_int8", 0.05), ("packed+static_fp8", 0.05)],
)
def test_a_decoder_over_two_gpus(model, quant, tolerance, tmp_path):
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    model += "" if quant.endswith("plain") else " quantised"
    agree_as_documented(model, on_ranks(2, tmp_path, quant, FLAGS[model], "cuda"), tolerance)


def agree_as_documented(model: str, answers: list[dict], tolerance: float) -> None:
    wanted = documented(model)
    for answer in answers:
        assert {name: answer["fired"][name] for name in wanted} == wanted
        assert "missed" not in answer["outcomes"]
        assert answer["divergences"] == []
        # A rank's share of a row has a scale of its own where rows are quantised.
        assert max(answer["apart"]) < tolerance
    assert all(answer["fired"] == answers[0]["fired"] for answer in answers)


@pytest.mark.slow
def test_ranks_that_decide_differently_are_seen_while_they_compile(tmp_path):
    """The results are right all the same: what one rank fuses, its peer does op by op."""
    answers = on_ranks(2, tmp_path, "plain", ("fuse_allreduce_rms", "only_rank_0"))
    seen = [subject for answer in answers for subject in answer["divergences"]]
    assert set(seen) == {"fusion AllReduceRMSNormFusionPass"}


def test_products_are_done_beside_collectives_only_where_sizes_may_be_large():
    fusion = AsyncTPPass(("0",))
    assert [fusion.is_applicable_for_range(Range(1, high)) for high in (8, 2047, 2048)] == [
        False,
        False,
        True,
    ]


@pytest.mark.parametrize(
    ("flags", "sizes"),
    [
        ({"enable_sp": True}, ["1-", "1-2047", "2048-", "7"]),
        ({"enable_sp": True, "fuse_allreduce_rms": True}, ["2048-"]),
        ({"enable_all": True}, ["2048-"]),
    ],
    ids=str,
)
def test_tokens_are_shared_out_where_nothing_quicker_is_on(flags, sizes):
    config = resolve(CompilationConfig(pass_config=flags), available_passes()).config
    manager = PostGradPassManager()
    manager.configure(config)
    (sharing,) = [p for p in manager.passes if p.name == "SequenceParallelismPass"]
    ranges = ("1-", "1-2047", "2048-", "7")
    assert [text for text in ranges if sharing.is_applicable_for_range(Range.parse(text))] == sizes


def coalesced(function, *inputs):
    module = make_fx(function, tracing_mode="fake")(*inputs)
    fusion = CollectiveFusionPass()
    fusion(module.graph)
    module.graph.lint()
    counts = {
        name: sum(str(n.target) == f"_c10d_functional.{name}.default" for n in module.graph.nodes)
        for name in ("all_reduce", "all_reduce_coalesced")
    }
    return fusion.matched_count, counts


def summed(x, kind="sum", ranks="0"):
    return functional.wait_tensor(functional.all_reduce(x, kind, ranks))


def test_sums_that_do_not_need_each_other_are_one_collective():
    def forward(x, y):
        a, b = functional.all_reduce(x.sin(), "sum", "0"), functional.all_reduce(y.cos(), "sum", "0")
        both = functional.wait_tensor(a) + functional.wait_tensor(b)
        return summed(both * 2)

    x, y = torch.randn(4, 8), torch.randn(3, 8)[:1]
    assert coalesced(forward, x, y) == (1, {"all_reduce": 1, "all_reduce_coalesced": 1})


@pytest.mark.parametrize(
    "forward",
    [
        lambda x, y: summed(summed(x) + y),
        lambda x, y: summed(x) + summed(y, "max"),
        lambda x, y: summed(x) + summed(y, ranks="1"),
        lambda x, y: summed(x) + summed(y.double()),
    ],
    ids=["one needs the other", "another reduction", "another group", "another dtype"],
)
def test_sums_that_stay_apart(forward):
    x = torch.randn(4, 8)
    assert coalesced(forward, x, x.clone()) == (0, {"all_reduce": 2, "all_reduce_coalesced": 0})
