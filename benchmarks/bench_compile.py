"""What recording costs a cold compile of a 24-layer model, beside TORCH_TRACE and TORCH_LOGS.

Each measurement is a process of its own, with fresh caches; the ways take turns, so that a busy
machine slows all of them alike. Two figures: wall seconds, and seconds of CPU of the compiling
process (steadier where other programs run beside it).

    python -m benchmarks.bench_compile --rounds 5 --layers 24
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.table import show

PROGRAM = """
import json, resource, sys, time
import torch

class Block(torch.nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        x = x + self.out(torch.softmax(q @ k.transpose(-1, -2) * 0.1, -1) @ v)
        return x + self.down(torch.nn.functional.silu(self.up(x)))

import torch._dynamo, torch._inductor.compile_fx
model = torch.nn.Sequential(*(Block() for _ in range(int(sys.argv[1]))))
x = torch.randn(2, 16, 32)
compiled = torch.compile(model, backend=sys.argv[2])
cpu = resource.getrusage(resource.RUSAGE_SELF)
started = time.perf_counter()
with torch.no_grad():
    compiled(x)
wall = time.perf_counter() - started
now = resource.getrusage(resource.RUSAGE_SELF)
used = now.ru_utime + now.ru_stime - cpu.ru_utime - cpu.ru_stime
print("MEASURED", json.dumps([wall, used]))
"""


def ways(folder: Path) -> dict[str, tuple[list[str], dict[str, str]]]:
    """Name -> the words in front of the program, and the environment it gets."""
    recording = [sys.executable, "-m", "compdbg", "run", "--quiet", "-o", str(folder / "run")]
    plain = [sys.executable]
    return {
        "off": (plain, {}),
        "compdbg": (recording, {}),
        "TORCH_TRACE": (plain, {"TORCH_TRACE": str(folder / "trace")}),
        "TORCH_LOGS": (plain, {"TORCH_LOGS": "+dynamo,+inductor"}),
    }


def measure(name: str, layers: int, backend: str) -> tuple[float, float]:
    """Wall and CPU seconds of one cold compile in a new process."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        program = folder / "program.py"
        program.write_text(PROGRAM)
        words, more = ways(folder)[name]
        environment = dict(os.environ) | {
            "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
            "XDG_CACHE_HOME": str(folder / "cache"),
            "OMP_NUM_THREADS": "1",
            "TORCHINDUCTOR_COMPILE_THREADS": "1",
            **more,
        }
        done = subprocess.run(
            [*words, str(program), str(layers), backend],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
    line = next(line for line in done.stdout.splitlines() if line.startswith("MEASURED "))
    wall, cpu = json.loads(line.removeprefix("MEASURED "))
    return float(wall), float(cpu)


def row(name: str, measured: dict[str, list[tuple[float, float]]]) -> Iterable[str]:
    """The medians of one way, and how much that is over `off`, round by round."""
    yield name
    for i in range(2):
        pairs = zip(measured[name], measured["off"], strict=True)
        yield f"{statistics.median(one[i] for one in measured[name]):.2f} s"
        yield f"{statistics.median(one[i] / off[i] - 1 for one, off in pairs):+.1%}"


def main(words: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--backend", default="inductor")
    parser.add_argument("--only", nargs="*", help="ways to measure beside `off`")
    arguments = parser.parse_args(words)
    names = [n for n in ways(Path()) if arguments.only is None or n in ("off", *arguments.only)]
    measured: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    for number in range(arguments.rounds):
        turn = names[number % len(names) :] + names[: number % len(names)]
        for name in turn:
            measured[name].append(measure(name, arguments.layers, arguments.backend))
            print(f"round {number + 1}, {name}: {measured[name][-1][0]:.2f} s", file=sys.stderr)
    show(
        f"A cold compile of {arguments.layers} layers, {arguments.backend}, {arguments.rounds} rounds",
        ("recording", "wall", "over off", "CPU of the process", "over off"),
        [list(row(name, measured)) for name in names],
    )


if __name__ == "__main__":
    main(sys.argv[1:])
