"""`compdbg run -cc.KEY=VALUE` from the command line to the configuration in effect."""

from __future__ import annotations

from pathlib import Path

import pytest

from compdbg.findings.collect import find_all
from compdbg.model.run import Run, load
from tests.integration.launching import clean_environment, go, recording, write

PROGRAM = """
    import torch
    from torch import nn
    from compdbg.compiler import CompilationConfig, support_torch_compile, use_config

    @support_torch_compile(dynamic_arg_dims={"x": 0})
    class Model(nn.Module):
        def forward(self, x):
            return x.sin()

    with use_config(CompilationConfig(backend="inductor", cudagraph_mode="NONE")), torch.inference_mode():
        print(Model()(torch.zeros(3)).tolist())
"""


def recorded(folder: Path, *words: str, **environment: str) -> Run:
    write(folder, {"program.py": PROGRAM})
    command = recording(folder / "run", *words, "program.py")
    went = go(command, folder, env=clean_environment(COMPDBG_CACHE_DIR=str(folder / "cache"), **environment))
    assert (went.status, went.stdout) == (0, b"[0.0, 0.0, 0.0]\n"), went.stderr
    assert b"changed nothing" not in went.stderr
    return load(folder / "run")


@pytest.mark.parametrize("dashes", ["-", "--"])
def test_it_wins_over_the_program(dashes: str, tmp_path: Path) -> None:
    run = recorded(tmp_path, f"{dashes}cc.backend=eager")
    (backend,) = (setting for setting in run.settings if setting.key == "backend")
    assert (backend.requested, backend.effective) == ("inductor", "eager")
    assert backend.changed_by == "-cc.backend=eager"


def test_it_wins_over_an_inherited_one(tmp_path: Path) -> None:
    run = recorded(tmp_path, "-cc.backend=eager", COMPDBG_CC='{"backend": "nowhere", "compile_sizes": "[3]"}')
    assert {"backend": "eager", "compile_sizes": "[3]"}.items() <= {
        s.key: s.effective for s in run.settings
    }.items()


def test_enforce_eager_compiles_nothing(tmp_path: Path) -> None:
    run = recorded(tmp_path, "--enforce-eager")
    assert {s.key: s.effective for s in run.settings}["mode"] == "NONE"
    assert not run.pieces


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (
            "-cc.backend=inductr",
            "no compiler is registered as backend 'inductr', which -cc.backend=inductr asks for; did you "
            "mean 'inductor'? register_compiler names one of your own",
        ),
        (
            "-cc.inductor_compile_config.max_autotun=true",
            "Inductor has no setting 'max_autotun'; did you mean 'max_autotune'?",
        ),
        ('-cc.inductor_passes=["nowhere:Pass"]', "'nowhere:Pass': there is no module 'nowhere' to import"),
    ],
)
def test_a_value_that_only_the_program_can_judge_is_the_users_error(
    option: str, said: str, tmp_path: Path
) -> None:
    """Not a fault of ours, nor a run without one: what, at which line, and what to do."""
    write(tmp_path, {"program.py": PROGRAM})
    env = clean_environment(COMPDBG_CACHE_DIR=str(tmp_path / "cache"))
    went = go(recording(tmp_path / "run", option, "program.py"), tmp_path, env=env)
    assert went.status == 1
    assert b"changed nothing" not in went.stderr
    assert b"piecewise" not in went.stderr, "the traceback ends at the model's call"
    assert went.stderr.splitlines()[-1].startswith(b"compdbg: 1 error; next: compdbg explain")
    run = load(tmp_path / "run")
    (finding,) = find_all(run)
    assert (finding.code, finding.data["stage"]) == ("compile-failed", "config")
    assert said in finding.title
    assert finding.where is not None
    assert finding.where.line == 12
    assert option in {setting.changed_by for setting in run.settings}
    assert finding.suggestion.startswith("Correct the value where it is set")


FUSED = """
    import torch
    from torch import nn
    from compdbg.compiler import CompilationConfig, FusionPass, support_torch_compile, use_config

    class Twice(FusionPass):
        def pattern(self, x):
            return torch.sin(x) * 2

        def replacement(self, x):
            return torch.sin(x) + torch.sin(x)

        def inputs(self):
            return [torch.empty(4, 8)]

    @support_torch_compile(dynamic_arg_dims={"x": 0})
    class Model(nn.Module):
        def forward(self, x):
            return torch.sin(x + 1) * 2

    with use_config(CompilationConfig(inductor_passes=[Twice()])), torch.inference_mode():
        Model()(torch.ones(3, 8))
"""


def test_a_warm_start_says_that_its_replacements_were_not_compared(tmp_path: Path) -> None:
    write(tmp_path, {"program.py": FUSED})
    said = []
    for start, more in (("cold", {}), ("warm", {}), ("anew", {"COMPDBG_DISABLE_COMPILE_CACHE": "1"})):
        folders = {"COMPDBG_CACHE_DIR": "ours", "TORCHINDUCTOR_CACHE_DIR": "torchs"}
        env = clean_environment(**{name: str(tmp_path / folder) for name, folder in folders.items()}, **more)
        command = recording(tmp_path / start, "--check-replacements", "program.py")
        went = go(command, tmp_path, env=env)
        assert went.status == 0, went.stderr
        said.append(went.stderr.decode().splitlines()[-1].partition("; recorded")[0])
    assert said == [
        "compdbg: no fault was found",
        "compdbg: no fault was found, but --check-replacements compared nothing: nothing is replaced where a "
        "cache serves; compile anew with COMPDBG_DISABLE_COMPILE_CACHE=1",
        "compdbg: no fault was found",
    ]
