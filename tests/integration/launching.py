"""Runs a program twice, by plain Python and by `compdbg run`, and says how each went."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from compdbg.model.run import Run, load

OURS = b"compdbg: "
MOST_LINES = 4


ADDRESS = re.compile(rb"0x[0-9a-f]{8,16}")


class Went(NamedTuple):
    """What a program's caller sees of it, addresses of objects aside. `status` is negative for a signal."""

    status: int
    stdout: bytes
    stderr: bytes


class Twice(NamedTuple):
    """The same program by Python alone and recorded; `last_lines` are ours, taken off the second's stderr."""

    plain: Went
    recorded: Went
    last_lines: list[bytes]
    folder: Path

    @property
    def run(self) -> Run:
        return load(self.folder)


def write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))


def clean_environment(**changes: str) -> dict[str, str]:
    """This process's, less what recording may have put there."""
    return {k: v for k, v in os.environ.items() if "COMPDBG" not in k} | changes


def recording(folder: Path, *words: str | bytes) -> list[str | bytes]:
    """The command; isolated, so that what PYTHONPATH holds is the program's and not ours to run."""
    return [sys.executable, "-I", "-m", "compdbg", "run", "-o", str(folder), *words]


def go(
    command: Sequence[str | bytes], cwd: Path, stdin: bytes = b"", env: Mapping[str, str] | None = None
) -> Went:
    done = subprocess.run(
        command,
        cwd=cwd,
        input=stdin,
        capture_output=True,
        env=env or clean_environment(),
        check=False,
        timeout=120,
    )
    return Went(done.returncode, ADDRESS.sub(b"0x", done.stdout), ADDRESS.sub(b"0x", done.stderr))


def twice(
    cwd: Path, words: Sequence[str | bytes], stdin: bytes = b"", env: Mapping[str, str] | None = None
) -> Twice:
    """Run `python WORDS` in `cwd`, then `compdbg run WORDS` there."""
    folder = cwd.parent / "recorded"
    plain = go([sys.executable, *words], cwd, stdin, env)
    recorded = go(recording(folder, *words), cwd, stdin, env)
    return Twice(plain, *without_last_lines(recorded), folder)


def without_last_lines(went: Went) -> tuple[Went, list[bytes]]:
    lines = went.stderr.splitlines(keepends=True)
    ours = 0
    while ours < min(len(lines), MOST_LINES) and lines[-1 - ours].startswith(OURS):
        ours += 1
    kept = lines[: len(lines) - ours]
    return went._replace(stderr=b"".join(kept)), lines[len(kept) :]
