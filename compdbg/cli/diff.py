"""What changed between two runs, or between two ranks of one run (RUN@0 RUN@1)."""

from __future__ import annotations

import argparse

from compdbg.cli.errors import FAILED, FINE
from compdbg.cli.reading import add_json, width


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("a", metavar="A", help="a run, or one rank of a run: RUN@0")
    add("b", metavar="B", help="the run or rank to compare with it")
    add("--exit-code", action="store_true", help="exit with 1 if there is a difference")
    add_json(parser)


def execute(arguments: argparse.Namespace) -> int:
    from compdbg.compare.runs import compare
    from compdbg.findings.collect import find_all
    from compdbg.model.run import Run
    from compdbg.report import diff as text
    from compdbg.report import json
    from compdbg.store.ranks import open_side
    from compdbg.views.diff import diff

    a, b = (Run(open_side(given)) for given in (arguments.a, arguments.b))
    differences = compare(a, find_all(a), b, find_all(b))
    if arguments.json:
        print(json.answer(a.summary, differences, other=b.summary))
    else:
        view = diff(differences, a.summary, b.summary, (arguments.a, arguments.b))
        print(text.render(view, width()), end="")
    return FAILED if differences and arguments.exit_code else FINE
