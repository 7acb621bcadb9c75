"""One rank of a tensor-parallel decoder: prints what fused, and how far it is from the whole model.

python -m tests.compiler.ranks_program RANK RANKS FOLDER [packed+]QUANT FLAG,FLAG... [cuda] [every-size]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
import torch.distributed as dist

import compdbg
import tests.compiler.passes_only  # noqa: F401
from compdbg.compiler import CompilationConfig, CompilationMode, PassConfig, use_config
from compdbg.findings.collect import find_all
from fixtures.models import CausalLM
from fixtures.models.attention import OPERATOR
from fixtures.models.parallel import shard
from tests.compiler.test_fusions_on_models import TINY, hidden


def main() -> None:
    rank, ranks, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    (packed, _, quant), flags = sys.argv[4].rpartition("+"), sys.argv[5].split(",")
    if rank and "only_rank_0" in flags:
        flags = []
    device = f"cuda:{rank}" if "cuda" in sys.argv[6:] else "cpu"
    if device != "cpu":
        torch.cuda.set_device(rank)
    dist.init_process_group(
        "gloo" if device == "cpu" else "nccl", init_method=f"file://{folder}/ranks",
        rank=rank, world_size=ranks, device_id=None if device == "cpu" else torch.device(device),
    )  # fmt: skip
    config = TINY.with_(kv_heads=4, ffn=512, quant="" if quant == "plain" else quant, packed=bool(packed))
    fusing = CompilationConfig(
        backend="passes-only",
        splitting_ops=[OPERATOR],
        pass_config={flag: True for flag in flags if flag in PassConfig.flags()},
        disable_cache=True,
    )
    with compdbg.record(folder / f"run{rank}") as run, torch.inference_mode():
        with use_config(CompilationConfig(mode=CompilationMode.NONE)):
            whole = CausalLM.random(config, device=device)
        with use_config(fusing):
            share = shard(CausalLM.random(config, device=device), rank, ranks)
        sizes = range(1, 301) if "every-size" in sys.argv[6:] else (3, 1, 40)
        apart = [(hidden(share, n, device=device) - hidden(whole, n, device=device)).abs() for n in sizes]
    kept = run.load()
    fusion = kept.fusion
    print(
        json.dumps(
            {
                "fired": {p.name: p.matched for p in fusion.passes if p.custom},
                "outcomes": sorted({row.outcome for row in fusion.rows if row.custom}),
                "divergences": [f.subject for f in find_all(kept) if f.code == "rank-divergence"],
                "apart": [float(a.mean()) for a in apart],
            }
        )
    )
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
