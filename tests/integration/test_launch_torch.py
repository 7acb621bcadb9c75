"""Programs that compile: their errors read as ever, and each of their processes records its own compiles."""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from compdbg.events import FrameCalls, FrameEnd, ProcessEnd, ProcessStart
from compdbg.findings.collect import find_all
from compdbg.model.run import Run, load
from tests.integration.launching import Went, clean_environment, go, recording, twice, write

pytestmark = pytest.mark.torch

LOG_PREFIX = re.compile(rb"^[A-Z]\d{4} [\d:.]+ \d+ ", re.MULTILINE)
"""Of a line of torch's own log: the time and the process."""

FAILURES = """
import sys, traceback, warnings
import torch
from torch._dynamo import mark_dynamic
from torch._inductor import config

def broken_backend(gm, inputs): raise ValueError("no such op")
def broken_pass(graph): raise RuntimeError("a pass that fails")

def refused(x): return x + 1
def prints(x):
    print("from the program")
    return x + 1
def mismatch(x): return x + torch.ones(3)
def fixes(x): return x + torch.ones(8)
def inner(x): raise KeyError("inside")
def breaks_then_fails(x):
    torch._dynamo.graph_break()
    return inner(x)
def warns(x):
    warnings.warn("from the program")
    torch._dynamo.graph_break()
    return x.sin()

def attempt(function, x, **options):
    torch._dynamo.reset()
    try:
        print(torch.compile(function, **options)(x))
    except Exception:
        traceback.print_exc()

marked = torch.ones(8)
mark_dynamic(marked, 0)
attempt(refused, torch.ones(2), backend=broken_backend)
attempt(refused, torch.ones(2), backend="nowhere")
attempt(refused, torch.ones(2), no_such_option=1)
attempt(prints, torch.ones(2), backend="eager", fullgraph=True)
attempt(prints, torch.ones(2), backend="eager")
attempt(mismatch, torch.ones(2), backend="aot_eager")
attempt(fixes, marked, backend="eager", fullgraph=True)
attempt(breaks_then_fails, torch.ones(2), backend="eager")
attempt(warns, torch.ones(2), backend="eager")
with config.patch(post_grad_custom_post_pass=broken_pass):
    attempt(refused, torch.ones(2))
torch.compile(mismatch, backend="eager")(torch.ones(2))
"""


def masked(went: Went) -> Went:
    return went._replace(stderr=LOG_PREFIX.sub(b"", went.stderr))


def compiles(run: Run) -> dict[int, list[str]]:
    """Process id -> the functions that it compiled."""
    pids = {header.process: event.pid for header, event in run.log.of(ProcessStart)}
    found: dict[int, list[str]] = defaultdict(list)
    for header, event in run.log.of(FrameEnd):
        if event.result == "compiled":
            found[pids[header.process]].append(event.frame.rpartition(":")[2])
    return dict(found)


def test_errors_and_warnings_read_as_under_python(tmp_path: Path) -> None:
    """Ten failing compiles: no frame of ours in any traceback, and the last ends the program."""
    here = tmp_path / "here"
    write(here, {"program.py": FAILURES})
    env = clean_environment(TORCHINDUCTOR_CACHE_DIR=str(tmp_path / "cache"))
    ran = twice(here, ["program.py"], env=env)
    assert masked(ran.recorded) == masked(ran.plain)
    assert ran.plain.status == 1
    assert ran.plain.stderr.count(b"Traceback (most recent call last)") >= 8
    assert len(ran.last_lines) in (4, 1), "one where a busy machine did not work them out in time"


def test_processes_of_a_program_that_compiles(tmp_path: Path) -> None:
    """By fork, with what the parent compiled; and workers of multiprocessing, which run no atexit."""
    write(
        tmp_path,
        {
            "program.py": """
                import multiprocessing, os, sys
                import torch

                @torch.compile(backend="eager")
                def shared(x): return x + 1

                @torch.compile(backend="eager")
                def own(x): return x + 2

                def work(): print("work", own(torch.ones(2)).tolist(), flush=True)

                if __name__ == "__main__":
                    for _ in range(5): shared(torch.ones(2))
                    if os.fork() == 0:
                        shared(torch.ones(2)); own(torch.ones(2))
                        sys.exit()
                    os.wait()
                    for method in ("fork", "spawn"):
                        worker = multiprocessing.get_context(method).Process(target=work)
                        worker.start(); worker.join()
            """
        },
    )
    went = go(recording(tmp_path / "run", "--quiet", "program.py"), tmp_path)
    assert went == (0, b"work [3.0, 3.0]\n" * 2, b"")
    run = load(tmp_path / "run")
    main, *others = [event.pid for _, event in run.log.of(ProcessStart)]
    assert compiles(run) == {main: ["shared"]} | {pid: ["own"] for pid in others}
    assert len(run.log.of(ProcessEnd)) == 4, "the workers' last words too"
    assert not find_all(run)


def test_a_forked_child_does_not_tell_its_parents_counts(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "program.py": """
                import os, sys
                import torch

                @torch.compile(backend="eager")
                def f(x): return x + 1

                for _ in range(5): f(torch.ones(2))
                if os.fork() == 0:
                    sys.exit()
                os.wait()
                f(torch.ones(2))
            """
        },
    )
    assert go(recording(tmp_path / "run", "--quiet", "program.py"), tmp_path).status == 0
    run = load(tmp_path / "run")
    main, _ = (header.process for header, _ in run.log.of(ProcessStart))
    *_, (header, last) = run.log.of(FrameCalls)
    assert (header.process, last.calls) == (main, 6)
    assert {header.process for header, _ in run.log.of(FrameCalls)} == {main}


def test_ranks_of_torchrun(tmp_path: Path) -> None:
    """Two ranks over gloo, one of which compiles what the other does not."""
    write(
        tmp_path,
        {
            "program.py": """
                import torch
                import torch.distributed as dist

                dist.init_process_group("gloo")
                f = torch.compile(lambda x: x * 2, backend="eager")
                x = f(torch.full((2,), float(dist.get_rank())))
                dist.all_reduce(x)
                assert x.tolist() == [2.0, 2.0]
                dist.barrier()  # gloo may end a rank by std::terminate when another has gone before it
                dist.destroy_process_group()
            """
        },
    )
    command = ["--", sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "program.py"]
    went = go(recording(tmp_path / "run", *command), tmp_path)
    assert went.status == 0, went.stderr
    run = load(tmp_path / "run")
    assert run.summary.ranks == [0, 1]
    assert run.summary.processes == 3
    assert sorted(h.rank for h, e in run.log.of(FrameEnd) if e.result == "compiled") == [0, 1]
    assert not [f for f in find_all(run) if f.severity != "info"]


def test_a_torch_that_fails_to_import(tmp_path: Path) -> None:
    """The import is watched; its traceback and the places of its warnings are as ever."""
    here = tmp_path / "here"
    write(
        here,
        {
            "program.py": "import torch\n",
            "torch/__init__.py": """
                import warnings
                warnings.warn("from torch", stacklevel=2)
                from torch import missing
            """,
        },
    )
    for text in ("", "raise ImportError('no libcuda')", "1 / 0"):
        (here / "torch" / "missing.py").write_text(text)
        ran = twice(here, ["program.py"])
        assert ran.recorded == ran.plain
        assert b"program.py:1: UserWarning: from torch" in ran.plain.stderr
        assert ran.plain.status == (1 if text else 0)
        for path in ran.folder.iterdir():
            path.unlink()


def test_no_module_of_the_library_is_loaded_that_torch_did_not_load(tmp_path: Path) -> None:
    """One that is would hide a `secrets.py` of the user's, imported after torch."""
    here = tmp_path / "here"
    write(here, {"program.py": "import sys, torch; print(*sys.modules)"})
    ran = twice(here, ["program.py"])
    more = {name.partition(b".")[0] for name in {*ran.recorded.stdout.split()} - {*ran.plain.stdout.split()}}
    assert more <= {b"compdbg", b"msgspec", b"decimal", b"_decimal"}
