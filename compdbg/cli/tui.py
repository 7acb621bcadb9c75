"""Explore a run in the terminal: from a symptom to its cause in three keys."""

from __future__ import annotations

import argparse
import sys

from compdbg.cli.errors import FINE, UsageError


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", nargs="?", metavar="RUN", help="a run's folder (default: the newest)")
    parser.add_argument("--follow", action="store_true", help="show what comes while the program runs")


def execute(arguments: argparse.Namespace) -> int:
    from compdbg.store.locate import find_run

    folder = find_run(arguments.run)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("tui needs a terminal; `compdbg show` and `compdbg explain` print text")
    from compdbg.tui.app import Explorer
    from compdbg.tui.quick import answer_keys_first

    answer_keys_first()
    explorer = Explorer(folder, follow=arguments.follow)
    explorer.run()
    if explorer.reading.fault is not None:
        raise explorer.reading.fault
    return FINE
