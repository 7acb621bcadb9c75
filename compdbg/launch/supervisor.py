"""Runs the program as a supervised child and records how it ended."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import compdbg
from compdbg.launch.child import RUN, STARTED_BY

BOOTSTRAP = Path(__file__).parent / "bootstrap"


def supervise(command: list[str], folder: str) -> int:
    """Run `command` with recording into `folder`; its exit status (negative: a signal)."""
    environment = dict(os.environ)
    environment[RUN] = folder
    environment[STARTED_BY] = str(os.getpid())
    package_home = str(Path(compdbg.__file__).parents[1])
    paths = [str(BOOTSTRAP), package_home, environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(p for p in paths if p)
    return subprocess.run([sys.executable, *command], env=environment, check=False).returncode
