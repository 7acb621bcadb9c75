"""Each fused kernel beside the separate operators, Inductor's and a copy, and itself laid out otherwise."""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from benchmarks.fused_regions import BF16, EPS, Region, all_regions, heads_of, separate_quant
from benchmarks.graph_timing import kernel_count, nbytes, timed_calls, turns
from compdbg.compiler import set_forward_context
from fixtures.models.metadata import metadata_of

Row = dict[str, Any]
LARGE = 2048
"""Tokens from which on a kernel is to reach the bandwidth; decode sizes are below."""
FIRST = [(8192, 4096), (64, 4096)]
MORE = [(8192, 8192), (8192, 2048), (1, 4096), (16384, 4096), (8, 4096)]
FP8 = torch.float8_e4m3fn


def shapes(region: Region, small: bool) -> list[tuple[int, int]]:
    if small:
        return [(3, 256), (40, 256)] if region.main else [(3, 256)]
    return FIRST + (MORE if region.main else [])


def plan(small: bool) -> list[tuple[Region, tuple[int, int]]]:
    """What is measured, shape by shape: where time is up, the later shapes are left out."""
    regions = all_regions()
    most = max(len(shapes(region, small)) for region in regions)
    ranked = [(region, shapes(region, small)[i : i + 1]) for i in range(most) for region in regions]
    return [(region, shape) for region, found in ranked for shape in found]


def measure_regions(run: Any) -> Row:
    """All that is planned, until time is up."""
    bandwidth = run.results.get("copy", {}).get("gbps") or 4200.0
    planned = plan(run.small)
    rows: list[Row] = []
    for region, (tokens, width) in planned:
        if run.left < run.reserve:
            break
        try:
            row = measured(region, tokens, width, run.options.device, bandwidth)
        except Exception as error:
            traceback.print_exc(limit=-4)
            row = {"failed": f"{type(error).__name__}: {error}"[:600]}
        rows.append({"region": region.name, "tokens": tokens, "width": width, **row})
        print(line(rows[-1]), flush=True)
        run.keep("kernels", {"rows": rows})
    return {"rows": rows, "left out": len(planned) - len(rows), "verdict": verdict(rows)}


def measured(region: Region, tokens: int, width: int, device: str, bandwidth: float) -> Row:
    """Microseconds of the three ways; `share` of the copy's bandwidth for the fused one."""
    sets = turns(lambda: region.make(tokens, width, device), device)
    launches = len(sets)
    out = region.fused(*sets[0])
    counted = [x for i, x in enumerate(sets[0]) if i not in region.uncounted]
    moved = nbytes(counted) + nbytes(out) + nbytes([sets[0][i] for i in region.also_written])
    row: Row = {"bytes": moved}
    inductor = functools.partial(compiled, region, sets[0])
    ways = {"fused": region.fused, "separate": region.plain, "inductor": inductor}
    for name, call in ways.items():
        try:
            way = call() if name == "inductor" else call
            row[name] = timed_calls(way, sets, launches, device)
            if device == "cuda" and tokens == FIRST[1][0]:
                row[f"{name} launches"] = kernel_count(way, sets[0])
        except Exception as error:
            row[f"{name} failed"] = f"{type(error).__name__}: {error}"[:300]
    if "fused" in row:
        row["gbps"] = moved / row["fused"] / 1e3
        row["share"] = row["gbps"] / bandwidth
    if "inductor" in row:
        row["inductor share"] = moved / row["inductor"] / 1e3 / bandwidth
    return row


def compiled(region: Region, example: Sequence[Any]) -> Callable[..., Any]:
    """Inductor's code for the region, made for one shape; numbers are constants of it."""
    numbers = {i: known for i, known in enumerate(example) if not isinstance(known, (Tensor, list))}

    def plain(*args: Any) -> Any:
        return region.plain(*(numbers.get(i, arg) for i, arg in enumerate(args)))

    torch._dynamo.reset()
    return torch.compile(plain, dynamic=False, fullgraph=True)


def line(row: Row) -> str:
    """A row as text."""
    if "failed" in row:
        return f"{row['region']:>28} {row['tokens']:>5} x {row['width']:<5} FAILED {row['failed']}"
    times = " ".join(
        f"{name} {row.get(name, float('nan')):8.2f}" for name in ("fused", "separate", "inductor")
    )
    share = f"{row.get('share', 0):.2f} of a copy (inductor {row.get('inductor share', 0):.2f})"
    failed = " ".join(f"{key}: {value}" for key, value in row.items() if key.endswith("failed"))
    return f"{row['region']:>28} {row['tokens']:>5} x {row['width']:<5} {times} us  {share} {failed}"


def verdict(rows: list[Row]) -> Row:
    """Where a goal is missed."""
    whole = [row for row in rows if "fused" in row]
    bound = {region.name for region in all_regions() if region.memory_bound}

    def listed(some: Iterator[Row], key: str) -> list[str]:
        return [f"{r['region']} {r['tokens']}x{r['width']}: {r.get(key, 0):.3g}" for r in some]

    large = [row for row in whole if row["tokens"] >= LARGE]
    return {
        "below 85% of a copy": listed(
            (r for r in large if r["region"] in bound and r["share"] < 0.85), "share"
        ),
        "slower than Inductor": listed((r for r in whole if r["fused"] > r.get("inductor", 1e9)), "fused"),
        "slower than separate": listed((r for r in whole if r["fused"] > r.get("separate", 1e9)), "fused"),
        "several launches": listed((r for r in whole if r.get("fused launches", 1) > 1), "fused launches"),
    }


def attention(run: Any) -> Row:
    """Attention that quantises, beside attention and a quantisation of its own, eager and compiled."""
    device = run.options.device
    found: Row = {}
    for tokens in [2] if run.small else [1, 8, 64, 256]:
        query, key = heads_of(tokens, 256 if run.small else 2048, device)[:2]
        query = query.contiguous()
        cache = torch.randn(2, 1 + 9 * tokens, 16, *key.shape[1:], device=device).to(BF16)
        metadata = metadata_of([(128, 1, range(1 + 9 * i, 10 + 9 * i)) for i in range(tokens)], 9, device)
        scale = torch.tensor(0.02, device=device)
        quantise = torch.compile(separate_quant, dynamic=False)
        quantise(query, scale)

        def both(quantise: Any = separate_quant, query=query, cache=cache, scale=scale) -> Any:
            out = torch.empty_like(query)
            torch.ops.fixtures.cached_attention(query, out, cache, 0.1)
            return quantise(out, scale)

        def fused(query=query, cache=cache, scale=scale) -> Any:
            out = torch.empty_like(query, dtype=FP8)
            torch.ops.fixtures.cached_attention_quant(query, out, cache, 0.1, scale)
            return out

        with set_forward_context(metadata):
            distance = (fused().float() - both().float()).abs().max().item()
            ways = {"fused": fused, "separate": both, "inductor": functools.partial(both, quantise)}
            row = {name: timed_calls(way, [()], 50, device) for name, way in ways.items()}
        found[str(tokens)] = row | {"largest difference": distance}
        print(tokens, found[str(tokens)], flush=True)
    return found


def layouts(run: Any) -> Row:
    """The kernels laid out otherwise: which rule is right. Microseconds by (rows, columns, warps)."""
    found: Row = {}
    ways = [] if run.options.device == "cpu" else ways_to_lay_out(run.small)
    for name, tokens, width, choices, call in ways:
        if run.left < run.reserve:
            break
        row = found.setdefault(f"{name} {tokens}x{width}", {})
        for choice in choices:
            try:
                make, use = call(choice)
                sets = turns(make, run.options.device)
                row[named(choice)] = round(timed_calls(use, sets, len(sets), run.options.device), 3)
            except Exception as error:
                row[named(choice)] = f"{type(error).__name__}: {error}"[:200]
        print(f"{name} {tokens}x{width}: {row}", flush=True)
        run.keep("layouts", found)
    return found


def named(choice: Sequence[int] | None) -> str:
    """A layout as `rows/columns/warps`."""
    return "rule" if choice is None else "/".join(map(str, choice))


def ways_to_lay_out(small: bool) -> Iterator[Any]:
    """Needs Triton."""
    from benchmarks import kernel_layouts

    yield from kernel_layouts.choices(small, EPS)
