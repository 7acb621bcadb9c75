"""Explain the findings of a run: cause, evidence, your line of code, what to do."""

from __future__ import annotations

import argparse

from compdbg.cli.reading import add_json, source


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="*", metavar="[RUN] [F3]", help="a run's folder; a finding's id")
    add_json(parser)


def execute(arguments: argparse.Namespace) -> int:
    from compdbg.report import json

    shown = source(arguments.words[0] if arguments.words else None)
    if arguments.json:
        print(json.answer(shown.run.summary, shown.findings))
        return 0
    for finding in shown.findings:
        print(finding)
    return 0
