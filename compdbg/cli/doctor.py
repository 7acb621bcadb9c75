"""Check the environment and exercise every hook on a small function."""

from __future__ import annotations

import argparse

from compdbg.cli.reading import add_json


def configure(parser: argparse.ArgumentParser) -> None:
    add_json(parser)


def execute(arguments: argparse.Namespace) -> int:
    return 0
