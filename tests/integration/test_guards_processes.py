"""Violations in forked children, and in processes that end without a word."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

pytestmark = pytest.mark.torch

PROGRAM = """
import os, signal, sys
import torch

SETTING = {"k": 2.0}

def step(x):
    return x * SETTING["k"]

drop = {"guard_filter_fn": lambda guards: [False] * len(guards)}
compiled = torch.compile(step, backend="eager", options=drop)
x = torch.ones(3)
compiled(x)
compiled(x)

def change_and_call(times):
    SETTING["k"] = 3.0
    for _ in range(times):
        compiled(x)

if sys.argv[1] == "fork":
    child = os.fork()
    if child == 0:
        change_and_call(2)
        sys.exit(0)
    os.waitpid(child, 0)
elif sys.argv[1] == "exit":
    change_and_call(2)
    os._exit(0)
else:
    change_and_call(30)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize(("end", "at_least"), [("fork", 2), ("exit", 2), ("kill", 16)])
def test_violations_are_told_as_they_happen(run_recorded, end, at_least):
    recorded = run_recorded(PROGRAM, end)
    (finding,) = recorded.found("guard-dropped-violated")
    assert (finding.severity, finding.data["call"]) == ("error", 3)
    assert finding.data["violations"] == at_least
    rows = [entry for entry in recorded.run.entries if not entry.inherited]
    assert len(rows) == 1
