"""Cold compile and warm start of the built-in compiler against the number of layers.

Each measurement is a process of its own, imports excluded: seconds from the first call to its
result, on fresh caches (cold), then again on what that left (warm). The layers differ by an index
in the graph and a name in the splitting operator.

    python benchmarks/bench_layers.py --layers 2 8 16 32 64 --backend inductor
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.table import show

PROGRAM = """
import json, resource, sys, time
import torch
from torch import nn
import torch._dynamo.aot_compile, torch._inductor.compile_fx, torch._inductor.standalone_compile
from compdbg import probe
from compdbg.compiler import CompilationConfig, support_torch_compile, use_config
import compdbg.compiler.wrapper

@torch.library.custom_op("bench::attention", mutates_args=("out",))
def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor, layer: str) -> None:
    out.copy_(torch.softmax(q @ k.T, -1) @ v)

@attention.register_fake
def _(q, k, v, out, layer):
    pass

class Layer(nn.Module):
    def __init__(self, index, width=64):
        super().__init__()
        self.index, self.name = index, f"layers.{index}"
        self.norm, self.post = nn.RMSNorm(width), nn.RMSNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.gate_up, self.down = nn.Linear(width, 4 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        out = torch.empty_like(q)
        torch.ops.bench.attention(q + self.index, k, v, out, self.name)
        x = x + self.out(out)
        gate, up = self.gate_up(self.post(x)).chunk(2, -1)
        return x + self.down(nn.functional.silu(gate) * up)

@support_torch_compile(dynamic_arg_dims={"x": 0})
class Model(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = nn.ModuleList(Layer(i) for i in range(layers))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x

class Count:
    made = 0
    def write(self, event, parent):
        if event.kind == "piece-compiled":
            Count.made += not event.reused
        return 1
    def payload(self, text):
        return ""

with use_config(CompilationConfig(backend=sys.argv[2], splitting_ops=["bench::attention"])):
    model = Model(int(sys.argv[1]))
if len(sys.argv) > 3:
    probe.set_sink(Count())
x = torch.randn(5, 64)
with torch.inference_mode():
    cpu, started = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    result = model(x)
    wall, now = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_SELF)
    torch.testing.assert_close(result, model.forward_eager(x), atol=1e-4, rtol=1e-4)
used = now.ru_utime + now.ru_stime - cpu.ru_utime - cpu.ru_stime
print("MEASURED", json.dumps([wall, used, Count.made]))
"""


def measure(layers: int, backend: str, folder: Path, *more: str) -> tuple[float, float, int]:
    """Wall and CPU seconds of the first call in a new process, and how many pieces were compiled."""
    environment = dict(os.environ) | {
        "COMPDBG_CACHE_DIR": str(folder / "ours"),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        "OMP_NUM_THREADS": "1",
    }
    program = folder / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, str(program), str(layers), backend, *more]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    line = next(line for line in done.stdout.splitlines() if line.startswith("MEASURED "))
    wall, cpu, made = json.loads(line.removeprefix("MEASURED "))
    return float(wall), float(cpu), int(made)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, nargs="+", default=[2, 8, 16, 32, 64])
    parser.add_argument("--backend", nargs="+", default=["inductor", "eager"])
    chosen, _ = parser.parse_known_args()
    rows = []
    for backend in chosen.backend:
        for layers in chosen.layers:
            with tempfile.TemporaryDirectory() as scratch:
                folder = Path(scratch)
                cold, cold_cpu, _ = measure(layers, backend, folder)
                warm, warm_cpu, _ = measure(layers, backend, folder)
                (folder / "again").mkdir()
                *_, made = measure(layers, backend, folder / "again", "count")
            rows.append(
                [backend, layers, made, f"{cold:.2f}", f"{cold_cpu:.2f}", f"{warm:.2f}", f"{warm_cpu:.2f}",
                 f"{cold / warm:.0f}x"]
            )  # fmt: skip
    head = ["backend", "layers", "compiled", "cold s", "cold cpu s", "warm s", "warm cpu s", "cold/warm"]
    show("First call of the built-in compiler", head, rows)


if __name__ == "__main__":
    main()
