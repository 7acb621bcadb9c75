"""List the runs below this directory, newest first."""

from __future__ import annotations

import argparse

from compdbg.cli.reading import add_json


def configure(parser: argparse.ArgumentParser) -> None:
    add_json(parser)


def execute(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from compdbg.store.locate import RUNS

    for folder in sorted(Path(RUNS).glob("*/run.json")):
        print(folder.parent)
    return 0
