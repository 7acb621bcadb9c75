"""Run a program exactly as Python would, and record what torch compiles in it."""

from __future__ import annotations

import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", dest="output", metavar="DIR", help="folder for the run")
    parser.add_argument("program", nargs=argparse.REMAINDER, help="SCRIPT [ARGS...]")


def execute(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from compdbg.launch.supervisor import supervise
    from compdbg.record.manifest import finish_manifest, new_run_folder, start_manifest
    from compdbg.record.options import Options

    options = Options()
    folder = Path(arguments.output) if arguments.output else new_run_folder(arguments.program[0])
    folder.mkdir(parents=True, exist_ok=True)
    start_manifest(folder, arguments.program, options)
    status = supervise(arguments.program, folder, options)
    finish_manifest(folder, exit_status=status)
    return status
