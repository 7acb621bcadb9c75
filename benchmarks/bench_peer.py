"""The same model through vLLM's compiler and through ours: cold compile, warm start, code generated.

Both run in this environment, in processes that take turns, on caches of their own; seconds from the
first call to its result, imports excluded. Needs vLLM (`make test-vllm` installs it).

    python -m benchmarks peer
"""

from __future__ import annotations

import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.table import show

ROOT = Path(__file__).parents[1]
MODEL = """
import json, sys, time
import torch
from torch import nn
import torch._dynamo.aot_compile, torch._inductor.compile_fx, torch._inductor.standalone_compile
from torch._inductor.graph import GraphLowering

generated = 0
original = GraphLowering.compile_to_module
def compile_to_module(self, *args, **kwargs):
    global generated
    generated += 1
    return original(self, *args, **kwargs)
GraphLowering.compile_to_module = compile_to_module

library = torch.library.Library("peer", "DEF")
library.define("attention(Tensor q, Tensor k, Tensor v, Tensor(a!) out, str layer) -> ()")
def attention(q, k, v, out, layer):
    out.copy_(torch.softmax(q @ k.T, -1) @ v)

library.impl("attention", attention, "CPU")
library._register_fake("attention", lambda q, k, v, out, layer: None)

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
        torch.ops.peer.attention(q, k, v, out, self.name)
        x = x + self.out(out)
        gate, up = self.gate_up(self.post(x)).chunk(2, -1)
        return x + self.down(nn.functional.silu(gate) * up)

layers, sizes = int(sys.argv[1]), [4]
x = torch.randn(16, 64)
"""
OURS = """
from compdbg.compiler import CompilationConfig, support_torch_compile, use_config
import compdbg.compiler.wrapper

@support_torch_compile
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Layer(i) for i in range(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x

with use_config(CompilationConfig(splitting_ops=["peer::attention"], compile_sizes=sizes)):
    model = Model()
call, eager = model, model.forward_eager
"""
VLLM = """
from engine import call as call_vllm, make_config
from vllm.compilation.decorators import support_torch_compile
from vllm.config import set_current_vllm_config

@support_torch_compile
class Model(nn.Module):
    def __init__(self, *, vllm_config, prefix=""):
        super().__init__()
        self.layers = nn.ModuleList(Layer(i) for i in range(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x

config = make_config(splitting_ops=["peer::attention"], compile_sizes=sizes)
with set_current_vllm_config(config):
    model = Model(vllm_config=config)
call, eager = lambda x: call_vllm(model, config, x), model.forward
"""
MEASURE = """
with torch.inference_mode():
    started = time.perf_counter()
    result = call(x)
    took = time.perf_counter() - started
    for n in (16, 4, 7):
        torch.testing.assert_close(call(x[:n].clone()), eager(x[:n].clone()), atol=1e-4, rtol=1e-4)
print("MEASURED", json.dumps([took, generated]))
"""


def measure(program: Path, layers: int, folder: Path) -> tuple[float, int]:
    """Seconds of the first call in a new process, and how often Inductor generated code."""
    tests = ROOT / "tests" / "vllm"
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(map(str, (ROOT, tests / "plugin", tests / "programs"))),
        "VLLM_CACHE_ROOT": str(folder / "cache"),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        "VLLM_LOGGING_LEVEL": "ERROR",
        "VLLM_NO_USAGE_STATS": "1",
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, str(program), str(layers)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    line = next((text for text in done.stdout.splitlines() if text.startswith("MEASURED ")), None)
    if line is None:
        raise RuntimeError(done.stderr[-2000:])
    took, generated = json.loads(line.removeprefix("MEASURED "))
    return float(took), int(generated)


def rounds(layers: int, count: int) -> list[list[str]]:
    """A row for each of the two, medians of `count` rounds in which they take turns."""
    cold: dict[str, list[float]] = {"vLLM": [], "ours": []}
    warm: dict[str, list[float]] = {"vLLM": [], "ours": []}
    made: dict[str, int] = {}
    for _ in range(count):
        for name, text in (("vLLM", VLLM), ("ours", OURS)):
            with tempfile.TemporaryDirectory() as scratch:
                folder = Path(scratch)
                program = folder / "program.py"
                program.write_text(MODEL + text + MEASURE)
                seconds, made[name] = measure(program, layers, folder)
                cold[name].append(seconds)
                warm[name].append(measure(program, layers, folder)[0])
    return [
        [
            str(layers),
            name,
            str(made[name]),
            f"{statistics.median(cold[name]):.1f}",
            f"{statistics.median(warm[name]):.2f}",
        ]
        for name in cold
    ]


def main() -> None:
    if importlib.util.find_spec("vllm") is None:
        print("\nThe comparison with vLLM needs vLLM: `make test-vllm` installs it.")
        return
    rows = [row for layers in (3, 16) for row in rounds(layers, 3)]
    show(
        "The first call: vLLM's compiler and ours", ["layers", "", "code generated", "cold s", "warm s"], rows
    )


if __name__ == "__main__":
    main()
