"""List the runs below this directory, newest first: what was run, how it ended, what was found."""

from __future__ import annotations

import argparse

from compdbg.cli.reading import add_json, width


def configure(parser: argparse.ArgumentParser) -> None:
    add_json(parser)


def execute(arguments: argparse.Namespace) -> int:
    from compdbg.report import json, text
    from compdbg.store.locate import all_runs
    from compdbg.views.run_list import run_list

    made = run_list(all_runs())
    if arguments.json:
        print(json.answer(None, made.items))
    else:
        print(text.render(made, width()), end="")
    return 0
