"""The one-shot sum over ranks with what follows it: right, and to the bit the same on each rank."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from compdbg.compiler.ops import symmetric
from compdbg.events import ConfigValue

ROOT = Path(__file__).parents[2]


def digests(where: str, ranks: int, folder: Path, **environment: str) -> set[str]:
    processes = [
        subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.compiler.reduced_checks",
                where,
                str(rank),
                str(ranks),
                str(folder),
            ],
            cwd=ROOT,
            env={**os.environ, "RANK": str(rank), "OMP_NUM_THREADS": "1", **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(ranks)
    ]
    try:
        said = [process.communicate(timeout=300) for process in processes]
    finally:
        for process in processes:
            process.kill()
    failed = [err[-3000:] for process, (_, err) in zip(processes, said, strict=True) if process.returncode]
    assert not failed, failed[0]
    return {out.splitlines()[-1] for out, _ in said}


@pytest.mark.torch
@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_ranks_agree_in_the_interpreter(ranks, tmp_path):
    pytest.importorskip("triton")
    from tests.compiler.reduced_checks import length_of, make_files, small_cases

    make_files(tmp_path, ranks, {length_of(case) for case in small_cases()})
    found = digests("interpreted", ranks, tmp_path, TRITON_INTERPRET="1", CUDA_VISIBLE_DEVICES="")
    assert len(found) == 1


@pytest.mark.gpu
def test_two_gpus_agree(tmp_path):
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    quiet = {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1"}
    assert len(digests("gpu", 2, tmp_path, **quiet)) == 1


@pytest.mark.torch
def test_where_memory_is_not_shared_it_is_told_once(record_here, monkeypatch):
    monkeypatch.setattr(symmetric, "_told", set())
    with record_here() as run:
        for _ in range(3):
            assert symmetric.workspace(torch.zeros(2, 4, dtype=torch.float64), "0") is None
    told = [event for _, event in run.load().log.of(ConfigValue) if "allreduce" in event.key]
    assert [(event.effective, event.why) for event in told] == [
        ("the process group's all-reduce", "rows are torch.float64")
    ]


@pytest.mark.torch
def test_a_name_that_is_used_again_is_another_group(monkeypatch):
    made = []
    monkeypatch.setattr(symmetric, "_workspaces", {})
    monkeypatch.setattr(symmetric, "_made", lambda ranks, group, *_: made.append(group) or "one rank")
    for _ in range(2):
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        try:
            for _ in range(3):
                assert symmetric.workspace(torch.zeros(2, 4), dist.group.WORLD.group_name) is None
        finally:
            dist.destroy_process_group()
    assert len(made) == 2


def test_how_many_rows_fit():
    """8 MiB a call; rows start at multiples of 128 bytes."""
    assert symmetric.capacity(16384) == (512, 16384)
    assert symmetric.capacity(4096) == (2048, 4096)
    assert symmetric.capacity(400) == (16384, 512)
    assert symmetric.capacity(1 << 24) == (0, 1 << 24)
