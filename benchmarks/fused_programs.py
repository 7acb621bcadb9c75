"""Small programs under `compdbg run`, with fusions on: what `show` says, beside the documentation's table."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
Row = dict[str, Any]
PROGRAM = """
import sys, torch
from compdbg.compiler import CompilationConfig, set_forward_context, use_config
from benchmarks.fused_models import backend_for
from fixtures.models import CausalLM, ModelConfig
from fixtures.models.attention import CACHED, OPERATOR
from fixtures.models.metadata import BLOCK, metadata_of

torch.set_grad_enabled(False)
device, splitting, flags, changes = sys.argv[1], sys.argv[2], sys.argv[3].split(), eval(sys.argv[4])
slots = splitting != "attention"
config = CompilationConfig(
    backend=backend_for(device),
    splitting_ops={"attention": [OPERATOR], "cached": [CACHED], "none": []}[splitting],
    pass_config=dict.fromkeys(flags, True), disable_cache=True,
)
shape = ModelConfig(layers=2, width=128, ffn=256, heads=4, kv_heads=2, head_dim=32).with_(**changes)
with use_config(config):
    model = CausalLM.random(shape, dtype=torch.bfloat16, device=device)
for n in (17, 2, 65):
    metadata = metadata_of([(0, n, list(range(1, -(-n // BLOCK) + 1)))], 20, device)
    with set_forward_context(metadata):
        ids = (torch.arange(n, device=device) * 7) % 512
        model(ids, torch.arange(n, device=device), metadata.slots if slots else None)
"""
MODELS: dict[str, tuple[str, str, str]] = {
    "quantised": ("attention", "fuse_norm_quant fuse_act_quant", "{'quant': 'static_fp8'}"),
    "plain": ("attention", "fuse_norm_quant fuse_act_quant fuse_qkv_projection", "{}"),
    "cache update in the graph": ("cached", "fuse_rope_kvcache", "{}"),
    "norms of queries and keys": ("attention", "enable_qk_norm_rope_fusion", "{'qk_norm': True}"),
    "not split": (
        "none",
        "fuse_attn_quant fuse_norm_quant fuse_act_quant fuse_rope_kvcache",
        "{'quant': 'static_fp8'}",
    ),
}
"""By the name of the documentation's table: where the graph is split, switches, the model's options."""


def programs(run: Any) -> Row:
    """Matches by pass in each program, those that the table has, and the verdict of the run."""
    found: Row = {}
    for name, arguments in MODELS.items():
        if run.left < run.reserve + 10:
            break
        found[name] = row = ran(name, arguments, run)
        print(name, json.dumps(row["counts"]), "equal" if row["equal"] else f"WANTED {row['wanted']}")
        print(row["passes"][-1500:], row.get("stderr", ""), flush=True)
        run.keep("program", found)
    return found


def ran(name: str, arguments: tuple[str, str, str], run: Any) -> Row:
    device = run.options.device
    folder = run.options.out / "runs" / name.replace(" ", "-")
    program = run.options.out / "fused_program.py"
    program.write_text(PROGRAM)
    recorded = _compdbg("run", "-o", str(folder), "--force", "--quiet", str(program), device, *arguments)
    shown = json.loads(_compdbg("show", "--json", str(folder), "fusion").stdout or "{}")
    rows = next((value for value in shown.values() if isinstance(value, list)), [])
    wanted = documented(name)
    counts = {each: sum(row["matched"] or 0 for row in rows if row["pass"] == each) for each in wanted}
    return {
        "exit": recorded.returncode,
        "stderr": recorded.stderr[-1500:] if recorded.returncode else "",
        "counts": counts,
        "wanted": wanted,
        "equal": counts == wanted,
        "fusion": _compdbg("show", str(folder), "fusion").stdout[-4000:],
        "passes": _compdbg("show", str(folder), "passes").stdout[-4000:],
        "findings": _compdbg("show", str(folder), "findings").stdout[-2000:],
    }


def documented(model: str) -> dict[str, int]:
    """The matches that the documentation's table has for a model."""
    page = (ROOT / "docs" / "fusions.md").read_text()
    rows = re.findall(r"^\| (\w[\w ]*) \| `(\w+Pass)` \| (\d+) \|$", page, re.MULTILINE)
    return {name: int(count) for kind, name, count in rows if kind == model}


def _compdbg(*arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    return subprocess.run(
        [sys.executable, "-m", "compdbg", *arguments],
        env={**os.environ, "PYTHONPATH": path}, cwd=ROOT, capture_output=True, text=True, check=False,
        timeout=150,
    )  # fmt: skip
