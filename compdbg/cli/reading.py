"""What every reading command shares: which run, JSON or text, how wide."""

from __future__ import annotations

import argparse
import shutil
import sys

from compdbg.views.base import Source


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")


def source(run: str | None) -> Source:
    """The run that the user named, with its findings."""
    from compdbg.findings.collect import find_all
    from compdbg.model.run import Run
    from compdbg.store.locate import open_run

    opened = Run(open_run(run))
    return Source(opened, find_all(opened))


def width() -> int:
    """Columns to draw in: the terminal's, or 100 where there is none, so that output can be diffed."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 100
