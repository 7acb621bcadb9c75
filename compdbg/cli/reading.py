"""What every reading command shares: which run, JSON or text, how wide."""

from __future__ import annotations

import argparse
import difflib
import gc
import os
import re
import shutil
import sys
from collections.abc import Sequence

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
    gc.freeze()  # what was read stays until the command ends
    return Source(opened, find_all(opened))


def width() -> int:
    """Columns to draw in: the terminal's, or 100 where there is none, so that output can be diffed."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 100


def help_width() -> int:
    """Columns of a help text, as argparse has them."""
    return shutil.get_terminal_size().columns - 2


def run_is_there(word: str) -> bool:
    """Whether a word may be meant as a run: it looks like a path, or it names something here."""
    from compdbg.store.locate import RUNS

    return "/" in word or os.path.exists(word) or os.path.exists(os.path.join(RUNS, word))


def check_word(word: str | None, known: Sequence[str], what: str) -> None:
    """A word that is neither a run nor known is a slip of the fingers: say what it may have been.

    `known` are the other words that may stand here, `what` is what one of them is called.

    Raises:
        UsageError: `word` has no `/`, is no run here, and is none of `known`.
    """
    if word == "":
        raise UsageError("the name of the run is empty")
    if word is None or run_is_there(word):
        return
    nor = f" and no {what}" if what != "run" else ""
    raise UsageError(f"{word!r} is no run here{nor}; {_meant(word, known, what)}")


def _meant(word: str, known: Sequence[str], what: str) -> str:
    """What the user may have meant by a word that is no run."""
    from compdbg.store.locate import all_runs
    from compdbg.views.all import VIEWS

    if what != "finding" and re.fullmatch(r"F\d+", word):
        return f"a finding is shown by: compdbg explain {word}"
    if what != "view" and word in VIEWS:
        return f"a view is shown by: compdbg show {word}"
    runs = [folder.name for folder in all_runs()]
    near = [run for run in runs if run.startswith(word)] or difflib.get_close_matches(
        word, [*known, *runs], 1
    )
    if near:
        return f"did you mean {near[0]}?"
    others = f"; {what}s are: {', '.join(known)}" if what == "view" else ""
    return f"runs are listed by: compdbg runs{others}"
