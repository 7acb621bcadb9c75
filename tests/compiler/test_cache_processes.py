"""The cache with real processes: eight at once on a cold cache, and writers that are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = [pytest.mark.torch, pytest.mark.slow]
ROOT = str(Path(__file__).parents[2])

SERVE = """
import sys, torch
from torch import nn
sys.path.insert(0, {root!r})
from tests.compiler.ops import eager
from compdbg.compiler import support_torch_compile, use_config

@support_torch_compile(dynamic_arg_dims={{"x": 0}})
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(4))

    def forward(self, x):
        for layer in self.layers:
            x = x + torch.ops.core.attention(layer(x))
        return x

print("ready", flush=True)
sys.stdin.readline()
torch.manual_seed(0)
with use_config(eager("core::attention")), torch.no_grad():
    model = Model()
    for n in (3, 1, 9):
        x = torch.randn(n, 16)
        torch.testing.assert_close(model(x), model.forward_eager(x))
(wrapper,) = (value for name, value in model.__dict__.items() if name.startswith("_compdbg_compiled_forward"))
print("loaded" if wrapper.loaded else "compiled", flush=True)
"""

WRITE = """
import os, sys
from pathlib import Path
sys.path.insert(0, {root!r})
from compdbg.compiler.cache_entry import Entry, to_bytes, write_atomically
path = Path(sys.argv[1])
data = to_bytes(Entry(key="k", factors={{}}, sections={{"s": os.urandom(1 << 22)}}))
print("ready", flush=True)
while True:
    write_atomically(path, data)
"""


def start(program: str, *args: str, cache: Path, **env: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program.format(root=ROOT), *args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "COMPDBG_CACHE_DIR": str(cache), "OMP_NUM_THREADS": "1", **env},
    )


def litter(cache: Path) -> list[str]:
    return [p.name for p in cache.rglob("*") if p.suffix in (".partial", ".lock", ".tmp")]


def test_eight_processes_on_one_cold_cache_are_each_right(cache):
    processes = [start(SERVE, cache=cache) for _ in range(8)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    ends = [process.communicate(timeout=300) for process in processes]
    assert [process.returncode for process in processes] == [0] * 8, ends
    assert {out for out, _ in ends} <= {"compiled\n", "loaded\n"}
    assert litter(cache) == []
    out, error = start(SERVE, cache=cache).communicate("go\n", timeout=300)
    assert (out, error) == ("ready\nloaded\n", "")


def test_a_writer_killed_fifty_times_never_leaves_a_wrong_entry(cache):
    from compdbg.compiler.cache_entry import from_bytes, remove_leftovers

    path = cache / "models" / "k" / "rank_0" / "entry"
    writer = start(WRITE, str(path), cache=cache)
    for attempt in range(50):
        assert writer.stdout.readline() == "ready\n"
        time.sleep(0.002 * (attempt % 7))
        writer.send_signal(signal.SIGKILL)
        writer.communicate()
        if path.exists():
            assert len(from_bytes(path.read_bytes(), "k").sections["s"]) == 1 << 22
        writer = start(WRITE, str(path), cache=cache)
    writer.send_signal(signal.SIGKILL)
    writer.communicate()
    remove_leftovers(path.parent)
    assert litter(cache) == []


def test_a_start_killed_at_any_moment_leaves_a_cache_that_the_next_start_can_use(cache):
    for delay in (0.02, 0.1, 0.3, 0.6, 1.0):
        process = start(SERVE, cache=cache)
        process.stdout.readline()
        process.stdin.write("go\n")
        process.stdin.flush()
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    out, error = start(SERVE, cache=cache).communicate("go\n", timeout=300)
    assert out.startswith("ready\n") and error == ""
    out, error = start(SERVE, cache=cache).communicate("go\n", timeout=300)
    assert (out, error) == ("ready\nloaded\n", "")
    assert litter(cache) == []
