"""Check the environment, exercise every hook on a small program, prove the fusions (a minute)."""

from __future__ import annotations

import argparse
import sys

from compdbg.cli.errors import FAILED, FINE
from compdbg.cli.reading import add_json, width


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true", help="check the environment only; import no torch")
    add_json(parser)


def execute(arguments: argparse.Namespace) -> int:
    from compdbg.doctor.environment import environment
    from compdbg.doctor.exercise import exercise
    from compdbg.doctor.fusions import fusions
    from compdbg.report import json, text
    from compdbg.views.doctor import doctor

    checks = list(environment())
    if not arguments.quick and not any(c.fatal for c in checks):
        if sys.stderr.isatty():
            print("compdbg: compiling a small program to try every hook ...", file=sys.stderr)
        checks += exercise()
        checks += fusions()
    if arguments.json:
        print(json.answer(None, checks))
    else:
        print(text.render(doctor(checks), width()), end="")
    return FAILED if any(c.state in ("degraded", "absent") for c in checks) else FINE
