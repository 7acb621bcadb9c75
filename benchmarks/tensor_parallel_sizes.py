"""The sum over ranks with what follows it, and products beside collectives, by size: what one rank does."""

from __future__ import annotations

import functools
import json
import statistics
import time
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

EPS = 1e-5
CALLS = 20
"""In each CUDA graph."""


class Rank(NamedTuple):
    """What a section knows of where it runs."""

    rank: int
    ranks: int
    device: str
    small: bool
    out: Path
    section: str
    name: str
    """The group's."""

    @property
    def gpu(self) -> bool:
        return self.device != "cpu"

    def tell(self, **row: Any) -> None:
        """One line of results, from rank 0."""
        if self.rank == 0:
            with (self.out / "lines.jsonl").open("a") as file:
                file.write(json.dumps({"section": self.section, **row}) + "\n")
            print(json.dumps(row), flush=True)


def microseconds(call: Callable[[], Any], on: Rank, rounds: int = 7, replays: int = 5) -> float:
    """Of one call among many in a CUDA graph; on a CPU, of one call among some."""
    for _ in range(3):
        call()
    if not on.gpu:
        began = time.perf_counter()
        for _ in range(CALLS):
            call()
        return (time.perf_counter() - began) / CALLS * 1e6
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(CALLS):
            call()
    for _ in range(3):
        graph.replay()
    found = []
    for _ in range(rounds):
        torch.cuda.synchronize()
        dist.barrier()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        graph.replay()
        start.record()
        for _ in range(replays):
            graph.replay()
        end.record()
        torch.cuda.synchronize()
        found.append(start.elapsed_time(end) / replays / CALLS * 1e3)
    return statistics.median(found)


def add_norm(x: Tensor, residual: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """As a model writes it."""
    total = x + residual
    wide = total.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + EPS)).to(x.dtype) * weight, total


class Example:
    """One size, and the ways to sum it and work out the norm."""

    def __init__(self, tokens: int, width: int, on: Rank) -> None:
        self.on, dtype = on, torch.bfloat16
        torch.manual_seed(on.rank)
        self.x = torch.randn(tokens, width, device=on.device).to(dtype)
        torch.manual_seed(100)
        self.residual = torch.randn(tokens, width, device=on.device).to(dtype)
        self.weight = torch.rand(width, device=on.device).to(dtype) + 0.5
        self.scale = torch.tensor(0.02, device=on.device)
        self.norm = torch.compile(add_norm, dynamic=False) if on.gpu else add_norm
        self.summed = self.x.clone()

    def after(self, total: Tensor) -> tuple[Tensor, Tensor]:
        return self.norm(total, self.residual, self.weight)

    def group(self) -> tuple[Tensor, Tensor]:
        """The group's own all-reduce, then the compiled norm."""
        dist.all_reduce(self.summed)
        return self.after(self.summed)

    @functools.cached_property
    def shared(self) -> Tensor:
        import torch.distributed._symmetric_memory as symmetric

        made = symmetric.empty(self.x.shape, dtype=self.x.dtype, device=self.x.device)
        symmetric.rendezvous(made, self.on.name)
        return made.copy_(self.x)

    def one_shot(self) -> tuple[Tensor, Tensor]:
        return self.after(torch.ops.symm_mem.one_shot_all_reduce(self.shared, "sum", self.on.name))

    def two_shot(self) -> tuple[Tensor, Tensor]:
        return self.after(torch.ops.symm_mem.two_shot_all_reduce_(self.shared, "sum", self.on.name))

    def alone(self) -> tuple[Tensor, Tensor]:
        return self.after(self.x)

    def ours(self) -> tuple[Tensor, Tensor]:
        return torch.ops.compdbg.all_reduce_add_rms_norm(
            self.x, self.residual, self.weight, EPS, 1, self.on.name
        )

    def launched(self, space: Any, by: Any) -> None:
        """Ours, launched as said."""
        from compdbg.compiler.ops.reduced_kernels import launch

        out, total = torch.empty_like(self.x), torch.empty_like(self.x)
        launch(space, self.x, self.residual, self.weight, None, out, None, total, EPS, 1, 0, by)

    def ours_quantised(self, group: int | None) -> tuple[Tensor, ...]:
        """To 8 bits: statically, or with a scale a row or `group` columns."""
        common, to = (self.x, self.residual, self.weight), torch.float8_e4m3fn
        if group is None:
            return torch.ops.compdbg.all_reduce_add_rms_norm_static_quant(
                *common, self.scale, EPS, 1, to, self.on.name
            )
        return torch.ops.compdbg.all_reduce_add_rms_norm_dynamic_quant(
            *common, EPS, 1, group, to, self.on.name
        )


def examples(on: Rank) -> Iterator[tuple[int, int, Example]]:
    for width in (64, 128) if on.small else (8192, 4096, 2048):
        for tokens in (1, 3) if on.small else (1, 8, 64, 256, 512):
            yield tokens, width, Example(tokens, width, on)


def sizes(on: Rank) -> None:
    """Every way at every size."""
    import compdbg.compiler.ops.reduced_norms  # noqa: F401

    torch._dynamo.config.recompile_limit = 64
    for tokens, width, example in examples(on):
        wanted = example.ours()
        ways: dict[str, Callable[[], Any]] = {"group + norm": example.group}
        if on.gpu:
            ways |= {"one-shot + norm": example.one_shot, "two-shot + norm": example.two_shot}
        ways |= {"norm alone": example.alone, "ours": example.ours}
        if width > 4000:
            ways |= {
                "ours static": lambda e=example: e.ours_quantised(None),
                "ours row": lambda e=example: e.ours_quantised(0),
                "ours group": lambda e=example: e.ours_quantised(128),
            }
        apart = max(
            float((a.float() - b.float()).abs().max()) for a, b in zip(wanted, example.group(), strict=True)
        )
        for name, call in ways.items():
            row = {"width": width, "tokens": tokens, "way": name, "us": round(microseconds(call, on), 2)}
            on.tell(**row, **({"apart": apart} if name == "ours" else {}))


def choices(on: Rank) -> None:
    """Ours, by how it is launched."""
    from compdbg.compiler.ops.reduced_kernels import How
    from compdbg.compiler.ops.symmetric import workspace

    for tokens, width, example in examples(on):
        space = workspace(example.x, on.name)
        assert space is not None
        for warps, two_shot in product((4, 8, 16, 32), (False, True) if on.ranks > 2 else (False,)):
            call = functools.partial(example.launched, space, How(warps, two_shot))
            us = round(microseconds(call, on, rounds=5), 2)
            on.tell(width=width, tokens=tokens, way=f"{warps}{' two-shot' if two_shot else ''}", us=us)


def overlap(on: Rank) -> None:
    """Products beside collectives, also where that doesn't pay, against one after the other."""
    from compdbg.compiler.ops import overlapped_kernels

    overlapped_kernels.OVERLAP_FROM = 0
    for tokens in (1, 8, 64, 256, 511, 2048):
        for kind, ways in products(tokens, on).items():
            one, other = (_flat(call()) for call in ways.values())
            error = float((one - other).norm() / other.norm())
            us = {name: round(microseconds(call, on, rounds=5), 1) for name, call in ways.items()}
            on.tell(kind=kind, tokens=tokens, error=error, **us)


def products(tokens: int, on: Rank) -> dict[str, dict[str, Callable[[], Any]]]:
    """Of the decoder's MLP: its last product with what follows, its first two with what comes before."""
    from compdbg.compiler.ops import overlapped

    torch.manual_seed(tokens * on.ranks + on.rank)

    def random(rows: int, columns: int) -> Tensor:
        return torch.randn(rows, columns, device=on.device).to(torch.bfloat16) / rows**0.5

    x, down, gate, up = random(tokens, 2816), random(2816, 2048), random(2048, 2816), random(2048, 2816)
    own, group = random(-(-tokens // on.ranks), 2048), (on.ranks, on.name)
    return {
        "product, reduce-scatter": {
            "overlapped": lambda: overlapped.mm_reduce_scatter(x, down, *group),
            "in turn": lambda: overlapped.mm_then_reduce_scatter(x, down, *group),
        },
        "all-gather, products": {
            "overlapped": lambda: overlapped.all_gather_mm(own, [gate, up], tokens, *group),
            "in turn": lambda: overlapped.all_gather_then_mm(own, [gate, up], tokens, *group),
        },
    }


def _flat(value: Any) -> Tensor:
    tensors = value if isinstance(value, (list, tuple)) else [value]
    return torch.cat([tensor.double().flatten() for tensor in tensors])
