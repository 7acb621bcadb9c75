"""What every reading command shares: which run, JSON or text, how wide."""

from __future__ import annotations

import argparse
import difflib
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from compdbg.cli.errors import UsageError
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


def check_word(word: str | None, known: Sequence[str], what: str) -> None:
    """A word that is neither a run nor known is a slip of the fingers: say what it may have been.

    Raises:
        UsageError: `word` has no `/`, is no run here, and is none of `known`.
    """
    if word is None or "/" in word or Path(word).exists() or (Path("compdbg-runs") / word).exists():
        return
    near = difflib.get_close_matches(word, known, 1)
    hint = f"did you mean {near[0]}?" if near else f"{what}s are: {', '.join(known)}"
    raise UsageError(f"{word!r} is no run here and no {what}; {hint}")
