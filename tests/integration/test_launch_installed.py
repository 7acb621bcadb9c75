"""Installed by pip, as a wheel and editable: the environment alone records, and unset costs nothing."""

from __future__ import annotations

import subprocess
import venv
from pathlib import Path

import msgspec
import pytest

from compdbg.model.run import load
from tests.integration.launching import clean_environment, go

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.parametrize("how", [[], ["--editable"]], ids=["wheel", "editable"])
def test_by_environment_alone(how: list[str], tmp_path: Path) -> None:
    home = tmp_path / "venv"
    venv.create(home, with_pip=True, symlinks=True)
    python = str(home / "bin" / "python")
    (site,) = home.glob("lib/python*/site-packages")
    (site / "msgspec").symlink_to(Path(msgspec.__file__).parent)
    install = [python, "-m", "pip", "install", "-q", "--no-deps", *how, str(ROOT)]
    if subprocess.run(install, capture_output=True, cwd=tmp_path, check=False).returncode:
        pytest.skip("nothing to build with: no network")
    code = "import sys; print([m for m in sys.modules if 'compdbg' in m and not m.startswith('_')], sys.path)"
    unset = go([python, "-c", code], tmp_path)
    assert unset.stdout.startswith(b"[] ")
    set_ = go([python, "-c", code], tmp_path, env=clean_environment(COMPDBG_RUN="run"))
    assert set_.stdout.partition(b"] ")[2] == unset.stdout.partition(b"] ")[2], "the same path"
    assert load(tmp_path / "run").summary.argv[-1] == code
    assert go([str(home / "bin" / "compdbg"), "run", "-o", "other", "-c", code], tmp_path).status == 0
    assert load(tmp_path / "other").summary.processes == 1
    tour = go([str(home / "bin" / "compdbg"), "demo", "--source"], tmp_path).stdout
    assert tour == (ROOT / "fixtures/demo/tour.py").read_bytes(), "the demo's program is installed too"
