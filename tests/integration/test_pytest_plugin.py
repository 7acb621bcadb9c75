"""The pytest plugin in a pytest of its own: what a failed test shows, workers, projects without it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.installed import on_path, own_pytest_plugin

PROGRAM = '''
import torch
import torch._inductor.pattern_matcher as pm
from torch.fx.experimental.proxy_tensor import make_fx

@torch.library.custom_op("plugin_tests::rms", mutates_args=())
def rms(x: torch.Tensor, eps: float) -> torch.Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)

@rms.register_fake
def _(x, eps):
    return torch.empty_like(x)

X = torch.empty(5, 4)

def serve(eps=1e-5):
    """Two sites for a pattern that is written for 1e-5."""
    fusion = pm.PatternMatcherPass(pass_name="RMSRound")
    pm.register_replacement(lambda x: torch.ops.plugin_tests.rms(x, 1e-5).round(), lambda x: x.neg(), [X],
                            pm.fwd_only, fusion)
    def layers(x):
        return torch.ops.plugin_tests.rms(torch.ops.plugin_tests.rms(x, 1e-5).round(), eps).round()
    fusion.apply(make_fx(layers, tracing_mode="fake")(X))
'''

TESTS = """
import os
import pytest
from program import serve

def test_both_fire(compdbg):
    with compdbg.record() as run:
        serve()
    assert run.fusion["RMSRound"].matched == 2
    assert compdbg.load(run.path).fusion["RMSRound"].matched == 2

def test_one_stopped(compdbg):
    with compdbg.record() as run:
        serve(eps=1e-6)
    assert run.fusion["RMSRound"].matched == 2

@pytest.mark.compdbg(expect="expect.toml")
def test_as_expected(compdbg):
    with compdbg.record():
        serve()

@pytest.mark.compdbg(expect="expect.toml")
def test_not_as_expected(compdbg):
    with compdbg.record():
        serve(eps=1e-6)

@pytest.mark.compdbg(expect="expect.toml")
def test_that_records_nothing(compdbg):
    pass

@pytest.mark.compdbg(expect="expect.toml")
def test_without_the_fixture():
    pass

def test_caches_are_fresh_and_put_back(compdbg, tmp_path):
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] != "/the/users"
    assert list(tmp_path.iterdir()) == []

def test_and_put_back():
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == "/the/users"
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project's folder, with pytest configured to take warnings for errors."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers -p no:cacheprovider\n")
    return folder


def run_pytest(project: Path, *options: str) -> str:
    """The output of a pytest that finds the plugin by its entry point."""
    environment = on_path(own_pytest_plugin(project.parent / "site"))
    environment["TORCHINDUCTOR_CACHE_DIR"] = "/the/users"
    command = [sys.executable, "-m", "pytest", "-rA", *options]
    done = subprocess.run(
        command, cwd=project, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    return done.stdout + done.stderr


@pytest.mark.torch
@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "under xdist"])
def test_what_tests_show(project: Path, workers: tuple[str, ...]) -> None:
    if workers:
        pytest.importorskip("xdist")
    (project / "program.py").write_text(PROGRAM)
    (project / "test_program.py").write_text(TESTS)
    (project / "expect.toml").write_text("[fusion.RMSRound]\nmatched = 2\n")
    told = run_pytest(project, "-W", "error::pytest.PytestWarning", *workers)
    results = {
        line.split("::")[1].split(" ")[0]: line.split(" ")[0]
        for line in told.splitlines()
        if line.startswith(("PASSED", "FAILED", "ERROR")) and "::" in line
    }
    assert results == {
        "test_both_fire": "PASSED",
        "test_one_stopped": "FAILED",
        "test_as_expected": "PASSED",
        "test_not_as_expected": "FAILED",
        "test_that_records_nothing": "ERROR",
        "test_without_the_fixture": "ERROR",
        "test_caches_are_fresh_and_put_back": "PASSED",
        "test_and_put_back": "PASSED",
    }, told
    miss = "arg-mismatch: wanted eps=1e-05 of plugin_tests.rms.default, found eps=1e-06"
    assert "where 1 = <RMSRound missed, matched 1" in told
    assert f"1 of 2 sites left: {miss}" in told
    assert f"fusion.RMSRound.matched: wanted 2, found 1. 1 site left: {miss}" in told
    assert "expectations are given, and the test recorded no run" in told
    assert "does not use the fixture `compdbg`" in told


def test_a_project_that_does_not_use_it_pays_for_nothing(project: Path) -> None:
    (project / "test_plain.py").write_text(
        "import sys\n"
        "def test_nothing_is_loaded():\n"
        "    ours = {m for m in sys.modules if m.startswith('compdbg')}\n"
        "    assert ours <= {'compdbg', 'compdbg.testing', 'compdbg.testing.plugin'}\n"
        "    assert 'torch' not in sys.modules and 'msgspec' not in sys.modules\n"
    )
    told = run_pytest(project, "-W", "error")
    assert "1 passed" in told, told


def test_a_file_of_expectations_that_is_wrong(project: Path) -> None:
    (project / "test_plain.py").write_text(
        "def test_something(compdbg):\n    with compdbg.record():\n        pass\n"
    )
    (project / "e.toml").write_text("[compile]\ngraph_break = 0\n")
    told = run_pytest(project, "--compdbg-expect", "e.toml")
    assert "compile.graph_break is no known key; did you mean graph_breaks?" in told
    assert "1 failed" in told
