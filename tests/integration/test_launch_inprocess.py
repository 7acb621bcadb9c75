"""`compdbg.record()`: the block is recorded, and nothing of it stays behind."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

import compdbg
from compdbg import probe
from compdbg.events import FrameEnd, ProcessEnd, ProcessStart
from compdbg.findings.collect import find_all
from compdbg.hooks.installed import MODULES, load_hook
from compdbg.model.run import load
from tests.integration.launching import go, recording, write

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()


def compiled(run: object) -> list[str]:
    return [e.frame.rpartition(":")[2] for _, e in run.log.of(FrameEnd) if e.result == "compiled"]  # type: ignore[attr-defined]


def patched_places() -> dict[str, object]:
    """Every name of torch that a hook may replace, and what stands there now."""
    found: dict[str, object] = {}
    for name in MODULES:
        for target in load_hook(name).targets:
            module, _, dotted = target.path.partition(":")
            owner = sys.modules.get(module)
            *way, last = dotted.split(".")
            for step in way:
                owner = getattr(owner, step, None)
            if owner is not None:
                found[target.path] = inspect.getattr_static(owner, last, None)
    return found


def test_the_block_is_recorded_and_readable_inside_and_after(tmp_path: Path) -> None:
    @torch.compile(backend="eager")
    def f(x):
        return x + 1

    with compdbg.record(tmp_path / "run") as run:
        f(torch.ones(2))
        assert compiled(run.load()) == ["f"]
        assert not run.summary.complete
    assert run.summary.complete
    assert run.summary.torch == torch.__version__
    assert compiled(load(tmp_path / "run")) == ["f"]
    assert run.load() is run.load()
    with pytest.raises(AttributeError, match="no attribute 'fusions'"):
        run.fusions  # noqa: B018


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch, in modules that Inductor imports
def test_nothing_stays_behind(tmp_path: Path) -> None:
    torch.compile(lambda x: x + 1, backend="inductor")(torch.ones(2))  # so that every module is imported
    before = patched_places(), list(sys.meta_path), dict(os.environ)
    with compdbg.record(tmp_path / "run"):
        torch.compile(lambda x: x + 2, backend="eager")(torch.ones(2))
        assert patched_places() != before[0]
    assert patched_places() == before[0]
    assert (list(sys.meta_path), dict(os.environ)) == before[1:]
    assert not probe.active()
    size = sum(p.stat().st_size for p in (tmp_path / "run").iterdir())
    torch.compile(lambda x: x + 3, backend="eager")(torch.ones(2))
    assert sum(p.stat().st_size for p in (tmp_path / "run").iterdir()) == size


def test_an_exception_passes_and_is_the_last_word(tmp_path: Path) -> None:
    error = ZeroDivisionError("mine")
    with pytest.raises(ZeroDivisionError) as raised, compdbg.record(tmp_path / "run") as run:
        raise error
    assert raised.value is error
    ((_, end),) = run.log.of(ProcessEnd)
    assert (end.uncaught, end.message) == ("ZeroDivisionError", "mine")
    with compdbg.record(tmp_path / "again") as run:
        pass
    ((_, end),) = run.log.of(ProcessEnd)
    assert end.uncaught is None


def test_blocks_do_not_nest(tmp_path: Path) -> None:
    with compdbg.record(tmp_path / "run"):
        with pytest.raises(RuntimeError, match="already recording"), compdbg.record(tmp_path / "inner"):
            pass
        assert probe.active()
    assert not (tmp_path / "inner").exists()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"audit": "some"}, "Invalid enum value 'some'"),
        ({"loud": True}, "no option loud; there are: audit"),
        ({"skip": ("guard_dogs",)}, "no hook guard_dogs to skip"),
    ],
)
def test_wrong_options(options: dict[str, object], complaint: str, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=complaint), compdbg.record(tmp_path / "run", **options):
        pass
    assert not (tmp_path / "run").exists()


def test_a_folder_that_is_not_empty(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    with pytest.raises(FileExistsError, match="not empty"), compdbg.record(tmp_path):
        pass


def test_without_a_path_it_goes_where_runs_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with compdbg.record() as run:
        pass
    assert run.path.parent == tmp_path / "compdbg-runs"
    assert load().summary.path == str(run.path)


def test_no_rights_for_the_log_cost_a_warning(capfd: pytest.CaptureFixture[str], monkeypatch) -> None:
    monkeypatch.delenv("COMPDBG_WARNED", raising=False)
    with compdbg.record("/proc/nowhere") as run:
        total = 1 + 1
    assert total == 2
    assert capfd.readouterr().err.startswith("compdbg: not recording: ")
    with pytest.raises(compdbg.store.reader.CannotRead):
        run.load()


def test_what_was_compiled_before_is_told(tmp_path: Path) -> None:
    @torch.compile(backend="eager")
    def early(x):
        return x + 1

    early(torch.ones(2))
    with compdbg.record(tmp_path / "run") as run:
        early(torch.ones(2))
    assert run.health.compiled_before == 1
    assert not find_all(run.load())


def test_processes_that_the_block_starts(tmp_path: Path) -> None:
    """A forked child, and one by subprocess where this environment's Python starts recording by itself."""
    with compdbg.record(tmp_path / "run") as run:
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        subprocess.run([sys.executable, "-c", ""], check=True)
    hows = [event.how for _, event in run.log.of(ProcessStart)]
    assert hows[:2] == ["record", "fork"]
    assert hows[2:] in ([], ["run"])


def test_in_a_program_that_is_recorded_itself(tmp_path: Path) -> None:
    """The block's events are the block's; the outer recording goes on after it."""
    write(
        tmp_path,
        {
            "program.py": """
                import compdbg, torch
                def one(x): return x + 1
                def two(x): return x + 2
                def three(x): return x + 3
                def go(f): torch.compile(f, backend="eager")(torch.ones(2))
                go(one)
                with compdbg.record("inner") as run:
                    go(two)
                go(three)
                print([e.frame.split(":")[-1] for _, e in run.log.of(compdbg.events.FrameEnd)])
            """
        },
    )
    went = go(recording(tmp_path / "run", "--quiet", "program.py"), tmp_path)
    assert went == (0, b"['two']\n", b"")
    assert compiled(load(tmp_path / "run")) == ["one", "three"]


def test_torch_imported_inside_the_block_of_a_recorded_program(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "program.py": """
                import compdbg
                with compdbg.record("inner") as run:
                    import torch
                    torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
                def after(x): return x + 2
                torch.compile(after, backend="eager")(torch.ones(2))
                print(len(run.log.of(compdbg.events.TorchLoaded)))
            """
        },
    )
    went = go(recording(tmp_path / "run", "--quiet", "program.py"), tmp_path)
    assert went == (0, b"1\n", b"")
    assert compiled(load(tmp_path / "inner")) == ["<lambda>"]
    assert compiled(load(tmp_path / "run")) == ["after"]
