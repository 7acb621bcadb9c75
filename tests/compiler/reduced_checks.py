"""One rank of the one-shot sum with norm and quantisation, checked against float64 on every rank.

    python -m tests.compiler.reduced_checks interpreted RANK RANKS FOLDER   (TRITON_INTERPRET=1)
    python -m tests.compiler.reduced_checks gpu RANK RANKS FOLDER

Interpreted, ranks are processes that map each other's files. Prints a digest of all results: the
ranks' must be equal.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from compdbg.compiler.ops import reduced_norms, symmetric
from compdbg.compiler.ops.reduced_kernels import How, launch
from compdbg.compiler.ops.symmetric import MINUS_ZERO_PAIR, Workspace
from tests.compiler.kernel_checks import EPS, check_quantized, check_scales, check_values, norm64

HALF = (torch.bfloat16, torch.float16)
FP8, INT8 = torch.float8_e4m3fn, torch.int8


class Case(NamedTuple):
    """`quant`: `none`, `static`, `row` or `group`."""

    rows: int
    width: int
    dtype: torch.dtype
    quant: str = "none"
    to: torch.dtype = FP8
    by: How | None = None


class Inputs(NamedTuple):
    parts: list[Tensor]
    residual: Tensor
    weight: Tensor


def inputs_of(case: Case, ranks: int, seed: int, device: str) -> Inputs:
    """The same on every rank: each rank's part, and what all have. With zeros of both signs, and large."""
    random = torch.Generator(device).manual_seed(seed)

    def values(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=random, device=device).to(case.dtype)

    parts = [values(case.rows, case.width) for _ in range(ranks)]
    parts[0][:, ::5] = -0.0
    parts[-1][:, ::3] = -0.0
    parts[0][:, 1::7] *= 300
    return Inputs(parts, values(case.rows, case.width), values(case.width).abs() + 0.5)


def check(outputs: tuple[Tensor, ...], case: Case, inputs: Inputs, scale: Tensor) -> None:
    """Against float64, from the sum that was given back on."""
    total = outputs[-1]
    exact = sum(part.double() for part in inputs.parts) + inputs.residual.double()
    check_values(total, exact, case.dtype)
    wanted = norm64(total, inputs.weight)
    if case.quant == "none":
        check_values(outputs[0], wanted, case.dtype)
    elif case.quant == "static":
        check_quantized(outputs[0], scale, wanted, case.dtype)
    else:
        group = 128 if case.quant == "group" else 0
        check_quantized(outputs[0], outputs[1], wanted, case.dtype, group)
        check_scales(outputs[1], wanted, case.to, case.dtype, group)


def run_operator(case: Case, rank: int, inputs: Inputs, scale: Tensor, ranks: str) -> tuple[Tensor, ...]:
    """By the operator that stands in graphs."""
    common = inputs.parts[rank], inputs.residual, inputs.weight
    if case.quant == "none":
        return reduced_norms.all_reduce_add_rms_norm(*common, EPS, 0, ranks)
    if case.quant == "static":
        return reduced_norms.all_reduce_add_rms_norm_static_quant(*common, scale, EPS, 0, case.to, ranks)
    group = 128 if case.quant == "group" else 0
    return reduced_norms.all_reduce_add_rms_norm_dynamic_quant(*common, EPS, 0, group, case.to, ranks)


def run_kernel(space: Workspace, case: Case, inputs: Inputs, scale: Tensor) -> tuple[Tensor, ...]:
    """By the kernel itself."""
    x = inputs.parts[space.rank]
    total, group = torch.empty_like(x), 128 if case.quant == "group" else 0
    out = torch.empty_like(x, dtype=x.dtype if case.quant == "none" else case.to)
    scales = x.new_empty((len(x), case.width // group if group else 1), dtype=torch.float32)
    dynamic = case.quant in ("row", "group")
    launch(
        space, x, inputs.residual, inputs.weight, scale if case.quant == "static" else None, out,
        scales if dynamic else None, total, EPS, 0, group, case.by,
    )  # fmt: skip
    return (out, scales, total) if dynamic else (out, total)


def bits(tensors: tuple[Tensor, ...]) -> bytes:
    return b"".join(t.contiguous().view(torch.uint8).cpu().numpy().tobytes() for t in tensors)


def small_cases() -> Iterator[Case]:
    """Sizes in turns, so that rows are in different turns; one length in bytes for 16 bits and for 32."""
    for rows in (1, 3, 2, 1, 4, 4):
        yield Case(rows, 256, torch.bfloat16)
        yield Case(rows, 128, torch.float32, "static", INT8)
        yield Case(rows, 256, torch.float16, "group", by=How(8))
        yield Case(rows, 256, torch.bfloat16, "none", by=How(4, True))
        yield Case(rows, 128, torch.float32, "row", INT8, by=How(8, True))
        yield Case(rows, 200, torch.bfloat16, "row")


def large_cases() -> Iterator[Case]:
    for rows in (1, 8, 64, 3, 256, 512, 2):
        for width in (2048, 4096, 8192):
            for dtype in (*HALF, torch.float32):
                for quant in ("none", "static", "row", "group"):
                    yield Case(rows, width, dtype, quant, INT8 if width == 4096 else FP8)


def mapped(folder: Path, rank: int, ranks: int, length: int) -> Workspace:
    """A workspace in files; whoever comes first to one makes it, empty."""
    rows, stride = 4, -(-length // symmetric.LINE) * symmetric.LINE
    size = symmetric.places_bytes(ranks, rows, stride) // 4
    memory = []
    for each in range(ranks):
        path = folder / f"places-{length}-{each}"
        memory.append(torch.from_file(str(path), shared=True, size=size, dtype=torch.int32))
    turns = torch.zeros(rows, dtype=torch.int32)
    places = tuple(each.data_ptr() for each in memory)
    return Workspace(rank, ranks, rows, stride, places, turns, memory)


def make_files(folder: Path, ranks: int, lengths: set[int]) -> None:
    """What `mapped` opens, before any rank starts."""
    for length in lengths:
        stride = -(-length // symmetric.LINE) * symmetric.LINE
        size = symmetric.places_bytes(ranks, 4, stride) // 4
        for rank in range(ranks):
            torch.full((size,), MINUS_ZERO_PAIR, dtype=torch.int32).numpy().tofile(
                folder / f"places-{length}-{rank}"
            )


def length_of(case: Case) -> int:
    return case.width * case.dtype.itemsize


def all_checked(
    cases: Iterator[Case],
    rank: int,
    ranks: int,
    device: str,
    run: Callable[[Case, Inputs, Tensor], tuple[Tensor, ...]],
) -> str:
    """The digest of all results."""
    digest = hashlib.sha256()
    for seed, case in enumerate(cases):
        inputs = inputs_of(case, ranks, seed, device)
        scale = torch.tensor(0.02, device=device)
        outputs = run(case, inputs, scale)
        check(outputs, case, inputs, scale)
        digest.update(bits(outputs))
    return digest.hexdigest()


def interpreted(rank: int, ranks: int, folder: Path) -> str:
    spaces = {n: mapped(folder, rank, ranks, n) for n in {length_of(case) for case in small_cases()}}
    return all_checked(
        small_cases(), rank, ranks, "cpu",
        lambda case, inputs, scale: run_kernel(spaces[length_of(case)], case, inputs, scale),
    )  # fmt: skip


def gpu(rank: int, ranks: int, folder: Path) -> str:
    device = f"cuda:{rank}"
    torch.cuda.set_device(rank)
    dist.init_process_group(
        "nccl", init_method=f"file://{folder}/ranks", rank=rank, world_size=ranks,
        device_id=torch.device(device),
    )  # fmt: skip
    name = dist.group.WORLD.group_name
    digests = [check(rank, ranks, device, name) for check in GPU_CHECKS.values()]
    dist.destroy_process_group()
    return " ".join(digests)


def called(rank: int, ranks: int, device: str, name: str) -> str:
    """All sizes, dtypes and kinds, by the operators."""
    digest = all_checked(
        large_cases(), rank, ranks, device,
        lambda case, inputs, scale: run_operator(case, rank, inputs, scale, name),
    )  # fmt: skip
    assert symmetric._workspaces, "not one call came so far"
    # The largest in 32 bits: the group's own all-reduce, with one kernel after it.
    assert {told[1:] for told in symmetric._told} == {(name, "more than 256 rows of 32768 bytes at a time")}
    return digest


def replayed(rank: int, ranks: int, device: str, name: str, times: int = 1000) -> str:
    """CUDA graphs of several sizes in turns, with other values in each replay."""
    scale = torch.tensor(0.02, device=device)
    cases = [
        Case(1, 8192, torch.bfloat16, "row"),
        Case(64, 8192, torch.bfloat16),
        Case(7, 2048, torch.float16),
    ]
    kept = []
    for case in cases:
        inputs = inputs_of(case, ranks, 0, device)
        run_operator(case, rank, inputs, scale, name)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            outputs = run_operator(case, rank, inputs, scale, name)
        kept.append((case, inputs, graph, outputs))
    digest = hashlib.sha256()
    for turn in range(times):
        case, inputs, graph, outputs = kept[(turn * 7) % 5 % 3]
        for tensor, new in zip(inputs.parts, inputs_of(case, ranks, turn, device).parts, strict=True):
            tensor.copy_(new)
        graph.replay()
        check(outputs, case, inputs, scale)
        digest.update(bits(outputs))
    return digest.hexdigest()


GPU_CHECKS = {"called": called, "replayed": replayed}


def main() -> None:
    where, rank, ranks, folder = sys.argv[1:]
    done = {"interpreted": interpreted, "gpu": gpu}[where](int(rank), int(ranks), Path(folder))
    print(done, flush=True)


if __name__ == "__main__":
    main()
