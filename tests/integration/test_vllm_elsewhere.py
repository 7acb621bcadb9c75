"""A vLLM that is not as we know it: nothing breaks, and what is not seen is said."""

from __future__ import annotations

import textwrap

import pytest

from compdbg.events import HookError, HookState

pytest.importorskip("torch")
pytestmark = pytest.mark.torch

PROGRAM = """
    import sys
    sys.path.insert(0, sys.argv[1])
    import torch
    import vllm.compilation.backends, vllm.config.compilation
    config = vllm.config.compilation.CompilationConfig()
    config.mode = 3
    print(config.mode, vllm.compilation.backends.split_graph(1))
"""

FILES = {
    "__init__.py": "",
    "compilation/__init__.py": "",
    "compilation/backends.py": "def split_graph(graph):\n    return graph + 1\n",
    "config/__init__.py": "",
    "config/compilation.py": "class CompilationConfig:\n    mode = 0\n",
}


@pytest.fixture
def other_vllm(tmp_path):
    """A package of that name whose inside was moved about."""
    for name, text in FILES.items():
        path = tmp_path / "elsewhere" / "vllm" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    return tmp_path / "elsewhere"


def test_the_program_runs_and_what_is_missing_is_named(run_recorded, other_vllm):
    recorded = run_recorded(PROGRAM, str(other_vllm))
    assert recorded.process.stdout == "3 2\n"
    states = [e for _, e in recorded.run.log.of(HookState) if e.hook == "vllm"]
    said = {(e.module, e.state) for e in states}
    assert said == {("vllm.compilation.backends", "degraded"), ("vllm.config.compilation", "degraded")}
    details = " ".join(e.detail for e in states)
    assert "split_graph: takes no splitting_ops (seen in vllm 0.33)" in details
    assert "VllmBackend.__call__: no 'VllmBackend' here" in details
    assert "PassConfig: not here (seen in vllm 0.33)" in details
    assert not recorded.run.log.of(HookError)


def test_a_program_without_vllm_loads_nothing_of_ours_for_it(run_recorded):
    recorded = run_recorded(
        """
        import sys, torch
        print(*(name for name in sys.modules if name.startswith("compdbg.hooks.vllm")))
        """
    )
    assert set(recorded.process.stdout.split()) <= {"compdbg.hooks.vllm", "compdbg.hooks.vllm_targets"}
