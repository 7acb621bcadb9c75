"""One rank of one section of `gpu_tensor_parallel`."""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from benchmarks.tensor_parallel_sizes import Rank, choices, overlap, sizes

WAYS: dict[str, dict[str, bool]] = {
    "off": {},
    "fused": {"fuse_allreduce_rms": True},
    "shared out": {"enable_sp": True, "fuse_gemm_comms": True},
}
"""Of the decoder: switches of its passes."""


def milliseconds(step: Callable[[], Any], on: Rank) -> dict[str, float]:
    """Of a step: `latency` with a wait after each, `pipelined` with one at the end. As often on all ranks."""
    wait = torch.cuda.synchronize if on.gpu else lambda: None
    count = 100 if on.gpu else 3
    singles, runs = [], []
    for _ in range(count):
        dist.barrier()
        wait()
        began = time.perf_counter()
        step()
        wait()
        singles.append(time.perf_counter() - began)
    for _ in range(5):
        dist.barrier()
        wait()
        began = time.perf_counter()
        for _ in range(count):
            step()
        wait()
        runs.append((time.perf_counter() - began) / count)
    return {"latency": statistics.median(singles) * 1e3, "pipelined": min(runs) * 1e3}


def checks(on: Rank) -> None:
    """Against float64, in CUDA graphs too, and one result on all ranks."""
    from tests.compiler import reduced_checks

    found: list[Any] = [None] * on.ranks
    for name, check in reduced_checks.GPU_CHECKS.items():
        began = time.perf_counter()
        digest = check(on.rank, on.ranks, on.device, on.name)
        dist.all_gather_object(found, digest)
        on.tell(check=name, ranks_agree=len(set(found)) == 1, seconds=round(time.perf_counter() - began, 1))


def decode(on: Rank, way: str) -> None:
    """Milliseconds a decode step of the decoder over all ranks, and how far it is from eager."""
    from benchmarks.decode_step import relative_error
    from benchmarks.tensor_parallel_decode import ParallelBench
    from compdbg.compiler import warm_up

    batches = [1, 3] if on.small else [1, 8, 64, 256]
    bench = ParallelBench(on.device, on.rank, on.ranks, batches, WAYS[way], small=on.small)
    began = time.perf_counter()
    warm_up(bench.model.model, bench.batch, sizes=batches, attn_metadata=lambda n, _: bench.metadata(n))
    on.tell(way=way, compile_seconds=round(time.perf_counter() - began, 1))
    plain = bench.plain()
    for n in batches:
        torch.manual_seed(n)
        step = bench.ours(n, "FULL")
        found = step().clone()
        torch.manual_seed(n)
        error = relative_error(found, bench.step(plain, n)())
        outputs: list[Any] = [None] * on.ranks
        dist.all_gather_object(outputs, found.float().sum(-1).tolist())
        ms = milliseconds(step, on)
        agree = all(each == outputs[0] for each in outputs)
        on.tell(way=way, batch=n, **{k: round(v, 4) for k, v in ms.items()}, error=error, ranks_agree=agree)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("section")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("results"))
    options = parser.parse_args()
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.set_grad_enabled(False)
    gpu = options.device == "cuda"
    device = f"cuda:{rank}" if gpu else "cpu"
    if gpu:
        torch.cuda.set_device(rank)
    dist.init_process_group("nccl" if gpu else "gloo", device_id=torch.device(device) if gpu else None)
    name = dist.group.WORLD.group_name
    on = Rank(rank, ranks, device, options.small, options.out, options.section, name)
    if options.section.startswith("decode "):
        decode(on, options.section.removeprefix("decode "))
    else:
        {"sizes": sizes, "choices": choices, "checks": checks, "overlap": overlap}[options.section](on)
    dist.barrier()
    sys.stdout.flush()
    os._exit(0)  # threads of a group that is taken down may abort a process that has done its work


if __name__ == "__main__":
    main()
