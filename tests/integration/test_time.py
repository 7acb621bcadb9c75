"""Phases as a tree, with their own time; what no phase accounts for; when a compile is called slow."""

from __future__ import annotations

import os
import time
import warnings
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

import compdbg
from compdbg import probe
from compdbg.events import Span, SpanBegin
from compdbg.findings.collect import find_all
from compdbg.model.run import Run, load
from compdbg.model.time import Phase
from compdbg.views.all import VIEWS
from compdbg.views.base import Source

# torch's own modules warn of deprecated parts of torch when they are imported.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Run:
    torch._dynamo.reset()
    with (
        warnings.catch_warnings(action="ignore", category=DeprecationWarning),
        compdbg.record(tmp_path_factory.mktemp("time") / "run") as recording,
    ):
        torch.compile(lambda x: x.sin() + 1, backend="aot_eager")(torch.ones(4))
    torch._dynamo.reset()
    return recording.load()


def named(run: Run, name: str) -> Phase:
    (found,) = [p for p in run.times.phases if p.span == name]
    return found


@pytest.mark.torch
class TestPhases:
    def test_they_nest_as_they_ran(self, compiled: Run) -> None:
        backend = named(compiled, "backend_compile")
        dispatcher = named(compiled, "create_aot_dispatcher_function")
        assert dispatcher.parent == "backend_compile"
        assert dispatcher.depth == backend.depth + 1
        assert backend.start_s <= dispatcher.start_s
        assert dispatcher.duration_s <= backend.duration_s
        assert backend.compile_id == "0/0"
        assert not backend.open

    def test_own_time_is_what_the_parts_leave(self, compiled: Run) -> None:
        for phase in compiled.times.phases:
            parts = [p for p in compiled.times.phases if p.parent_event == phase.event]
            left = phase.duration_s - sum(p.duration_s for p in parts)
            assert phase.self_s == pytest.approx(max(0.0, left), abs=1e-5)

    def test_passes_are_no_phases(self, compiled: Run) -> None:
        assert not any(p.span.startswith("pass.") for p in compiled.times.phases)

    def test_what_happens_inside_has_the_phase_as_its_parent(self, compiled: Run) -> None:
        inside = [r for r in compiled.log.records if r.header.parent is not None]
        parents = {compiled.log.by_id[f"{r.header.process}:{r.header.parent}"].event.kind for r in inside}
        assert "span-begin" in parents

    def test_the_view(self, compiled: Run) -> None:
        view = VIEWS["time"](Source(compiled, []))
        row = msgspec.to_builtins(view.items[0])
        assert {"span", "parent", "process", "rank", "start_s", "duration_s", "self_s"} <= set(row)
        assert "compiling" in view.lines[0]


def _run(tmp_path: Path, *spans: tuple[str, float, float, str | None], wall: float = 0.0) -> Run:
    """A run whose phases lasted as given: name, start, duration, compile id."""
    import json

    folder = tmp_path / "run"
    folder.mkdir()
    lines = [{"kind": "process-start", "pid": 1, "ppid": 0, "argv": [], "executable": "", "python": "3.11"}]
    times = [0.0]
    for name, start, duration, compile_id in spans:
        lines.append({"kind": "span", "name": name, "duration_s": duration, "compile_id": compile_id})
        times.append(start + duration)
    lines.append({"kind": "process-end"})
    times.append(max(wall, *times))
    heads = [{"run": "r", "process": "1-a", "seq": n, "time": 1e9 + t} for n, t in enumerate(times, 1)]
    records = [json.dumps(head | line) for head, line in zip(heads, lines, strict=True)]
    (folder / "host-1-a.jsonl").write_text("\n".join(records) + "\n")
    return load(folder)


def slow(run: Run) -> list[Any]:
    return [f for f in find_all(run) if f.code == "slow-compile"]


class TestSlowCompiles:
    def test_over_twenty_seconds(self, tmp_path: Path) -> None:
        run = _run(tmp_path, ("dynamo", 1, 14, "0/0"), ("dynamo", 16, 8, "1/0"), wall=600)
        (finding,) = slow(run)
        assert finding.severity == "info"
        assert finding.data["seconds"] == 22
        assert list(finding.data["pieces"]) == ["0/0", "1/0"]

    def test_over_half_of_a_run_that_compiles_for_ten(self, tmp_path: Path) -> None:
        (finding,) = slow(_run(tmp_path, ("dynamo", 1, 12, "0/0"), wall=20))
        assert finding.data["part"] == 0.6
        assert "60%" in finding.title

    def test_twelve_seconds_of_a_long_run_are_not(self, tmp_path: Path) -> None:
        assert slow(_run(tmp_path, ("dynamo", 1, 12, "0/0"), wall=60)) == []

    def test_a_short_one_is_not(self, tmp_path: Path) -> None:
        assert slow(_run(tmp_path, ("dynamo", 1, 5, "0/0"))) == []

    def test_kernels_that_another_thread_compiles_meanwhile_count_once(self, tmp_path: Path) -> None:
        run = _run(tmp_path, ("compile_file", 2, 9, None), ("dynamo", 1, 15, "0/0"), wall=16)
        (finding,) = slow(run)
        assert finding.data["seconds"] == 15
        assert list(finding.data["phases"]) == ["dynamo"]


class TestOpenPhases:
    def test_a_phase_that_never_ended_is_open(self, record_here: Any) -> None:
        with record_here() as run:
            probe.emit(SpanBegin(name="async_compile.wait", compile_id="0/0"))
        (phase,) = run.load().times.phases
        assert phase.open
        assert "async_compile.wait" in VIEWS["time"](Source(run.load(), [])).items[0].span

    def test_an_ended_one_is_not(self, record_here: Any) -> None:
        with record_here() as run:
            begin = probe.emit(SpanBegin(name="code_gen"))
            probe.emit(Span(name="code_gen", duration_s=0.5, begin=begin))
        (phase,) = run.load().times.phases
        assert (phase.open, phase.duration_s) == (False, 0.5)


def test_the_import_of_torch_is_a_phase(run_recorded: Any) -> None:
    recorded = run_recorded("import torch\nprint('ok')\n")
    assert recorded.process.stdout == "ok\n"
    (phase,) = recorded.run.times.phases
    assert phase.span == "import torch"
    assert 0.1 < phase.duration_s < time.monotonic()
    (line,) = VIEWS["time"](Source(recorded.run, [])).lines
    assert "importing torch" in line
    assert os.path.basename(str(recorded.folder)) not in line
