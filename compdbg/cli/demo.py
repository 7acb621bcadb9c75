"""A tour: records a small built-in model that has three mistakes in it, and shows the way to them."""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from compdbg.cli.errors import FINE, CommandError, UsageError

STEPS = (
    ("what is wrong, worst first", ["explain"]),
    ("the fusions: which fired, and how far the others came", ["show", "fusion"]),
    ("the graph, split at attention; equal pieces are compiled once", ["show", "splits"]),
    ("each size that was called: padded to, captured, replayed", ["show", "sizes"]),
)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o", dest="output", metavar="DIR", help="folder for the run (default: one below compdbg-runs/)"
    )
    parser.add_argument("--source", action="store_true", help="print the program of the tour and leave")


def execute(arguments: argparse.Namespace) -> int:
    root = fixtures_folder()
    program = root / "fixtures" / "demo" / "tour.py"
    if arguments.source:
        print(program.read_text(), end="")
        return FINE
    folder = arguments.output or time.strftime("compdbg-runs/demo-%Y%m%d-%H%M%S") + f"-{os.getpid():x}"
    if os.path.exists(folder) and not (os.path.isdir(folder) and not os.listdir(folder)):
        raise UsageError(f"{folder} is there already; -o names a new folder for the run")
    print(f"Recording a small server, {program.name} ({_shown(['demo', '--source'])} prints it).")
    print("It compiles and captures a decoder of two layers: about half a minute.", flush=True)
    _record(root, program, folder)
    for what, words in STEPS:
        command = [words[0], folder if "/" in folder else f"{folder}/", *words[1:]]
        print(f"\n# {what}\n$ {_shown(command)}", flush=True)
        subprocess.run([sys.executable, "-m", "compdbg", *command], check=True)
    print(f"\nThe same for a program of yours: compdbg run script.py. This run: {folder}")
    return FINE


def fixtures_folder() -> Path:
    """Where the package `fixtures` with the built-in models is: in the wheel, else in the checkout.

    Raises:
        CommandError: it is in neither.
    """
    package = Path(__file__).parents[1]
    for root in (package / "demo", package.parent):
        if (root / "fixtures" / "demo" / "tour.py").is_file():
            return root
    raise CommandError(f"the demo's program is not installed in {package}; install compdbg again")


def _record(root: Path, program: Path, folder: str) -> None:
    command = [sys.executable, "-m", "compdbg", "run", "-o", folder, str(program)]
    path = os.pathsep.join(filter(None, (str(root), os.environ.get("PYTHONPATH"))))
    with tempfile.TemporaryDirectory(prefix="compdbg-demo-") as fresh:
        ours = {"XDG_CACHE_HOME": fresh, "COMPDBG_CACHE_DIR": f"{fresh}/ours"}
        caches = {**ours, "TORCHINDUCTOR_CACHE_DIR": f"{fresh}/inductor"}
        done = subprocess.run(command, env={**os.environ, **caches, "PYTHONPATH": path}, check=False)
    if done.returncode:
        raise CommandError(f"the program of the tour ended with {done.returncode}: {shlex.join(command)}")


def _shown(words: list[str]) -> str:
    return shlex.join(["compdbg", *words])
