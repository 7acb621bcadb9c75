"""Writes a run as a long session of a serving engine leaves it: any number of events, in their usual mix."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PHASES = (
    "dynamo", "entire_frame_compile", "bytecode_tracing", "backend_compile", "inductor_compile",
    "GraphLowering.run", "GraphLowering.codegen", "Scheduler.fused_nodes_list", "compile_file",
)  # fmt: skip
PASSES = ("remove_noop_ops", "pattern_matcher", "group_batch_fusion_passes", "reinplace_inplaceable_ops")
RANKS = 4
RATE = 300
"""Events a second of each rank."""


def write_large_run(folder: Path, events: int, seed: int = 7) -> Path:
    """A run of `RANKS` processes with `events` events in all, findings among them."""
    folder.mkdir(parents=True)
    manifest = {
        "schema": "1.0", "argv": ["serve.py", "--model", "large"], "started": "2026-09-21T10:15:02+00:00",
        "complete": True, "exit_status": 0, "duration_s": 900.0, "options": {},
    }  # fmt: skip
    (folder / "run.json").write_text(json.dumps(manifest))
    for rank in range(RANKS):
        made = _process(rank, events // RANKS, random.Random(seed + rank), folder)
        name = f"gpu-box-7-{4000 + rank}-ab12{rank}-rank{rank}.jsonl"
        (folder / name).write_text("".join(json.dumps(line) + "\n" for line in made))
    return folder


def _process(rank: int, count: int, dice: random.Random, folder: Path) -> Iterator[dict[str, Any]]:
    head = {"run": folder.name, "process": f"{4000 + rank}-ab12{rank}", "rank": rank}
    now = 1_790_000_000.0
    for seq, (body, back) in enumerate(_bodies(count, dice), 1):
        now += dice.expovariate(RATE)
        if body["kind"] == "span":
            body["begin"] = seq - body["begin"]
        yield {**head, "seq": seq, "time": round(now, 6), "parent": seq - back if back else None, **body}


def _bodies(count: int, dice: random.Random) -> Iterator[tuple[dict[str, Any], int]]:
    """Events and how far back their parents are; so is what a span gives as its begin."""
    yield (
        {"kind": "process-start", "pid": 1, "ppid": 0, "argv": ["serve.py"], "executable": "python",
         "python": "3.11.7", "cwd": "/srv", "host": "gpu-box-7"}, 0,
    )  # fmt: skip
    yield {"kind": "torch-loaded", "torch": "2.13.0", "device": "cuda"}, 0
    made, compile_number = 2, 0
    while made < count - 1:
        for event in _compile(compile_number, dice):
            yield event
            made += 1
            if made >= count - 1:
                break
        compile_number += 1
    yield {"kind": "process-end"}, 0


def _compile(number: int, dice: random.Random) -> Iterator[tuple[dict[str, Any], int]]:
    """One piece compiled for one size: phases, passes with attempts, a cache, tallies of its calls."""
    piece, id = f"submod_{number % 65}", f"{number // 65}/{number % 65}"
    file = f"/srv/model/layers_{number % 13}.py"
    frame = f"{file}:{20 + number % 7}:forward"
    where = {"file": file, "line": 30 + number % 40, "function": "forward"}
    at = {"frame": frame, "compile_id": id}
    phase = {"compile_id": id, "category": "compile"}
    yield {"kind": "frame-start", **at, "where": where, "name": "Block.forward"}, 0
    for name in PHASES:
        yield {"kind": "span-begin", "name": name, **phase}, 1
    for index in range(28):
        ran = {"pass_name": PASSES[index % len(PASSES)], "graph": id, "index": index, "compile_id": id}
        took = dice.random() * 900
        yield {"kind": "pass-run", **ran, "subsystem": "post_grad_passes", "duration_us": took}, 1 + index
    for site in range(6):
        yield {"kind": "match-attempt", "graph": id, "graph_id": number, **_attempt(site, where)}, 2
    for closed, name in enumerate(reversed(PHASES)):
        back = 28 + 6 + 1 + 2 * closed
        took = back / RATE * (0.9 + dice.random() / 10)
        yield {"kind": "span", "name": name, "duration_s": took, "begin": back, **phase}, back + 1
    key = f"{dice.getrandbits(128):032x}"
    yield {"kind": "cache-lookup", "layer": "fx", "result": "miss", "graph": piece, "key": key}, 1
    yield {"kind": "frame-end", **at, "result": "compiled", "duration_ms": dice.random() * 9e3}, 1
    for size in (1, 2, 4, 8):
        served = {"compiled_as": "1-512", "padded_to": size, "replays": dice.randrange(10**6)}
        yield {"kind": "dispatch", "graph": piece, "size": size, **served}, 1
    yield {"kind": "frame-calls", **at, "calls": dice.randrange(10**6)}, 1


def _attempt(site: int, where: dict[str, Any]) -> dict[str, Any]:
    miss = {
        "reason": "arg-mismatch", "stage": "second", "node": f"rms_norm_{site}", "found": "eps=1e-06",
        "wanted": "eps=1e-05 of vllm.rms_norm", "matched_nodes": 1, "pattern_nodes": 4, "where": where,
    }  # fmt: skip
    return {
        "pass_id": "p1", "pass_name": "RMSNormQuantFusionPass", "pattern": "static",
        "anchor": f"quant_{site}", "outcome": "missed", "miss": miss,
    }  # fmt: skip
