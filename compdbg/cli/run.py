"""Run a program exactly as Python would, and record what torch compiles in it."""

from __future__ import annotations

import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", dest="output", metavar="DIR", help="folder for the run")
    parser.add_argument("program", nargs=argparse.REMAINDER, help="SCRIPT [ARGS...]")


def execute(arguments: argparse.Namespace) -> int:
    import os

    from compdbg.launch.supervisor import supervise
    from compdbg.record.manifest import Manifest, new_run_folder

    folder = os.path.abspath(arguments.output) if arguments.output else new_run_folder(arguments.program[0])
    os.makedirs(folder, exist_ok=True)
    manifest = Manifest(folder, arguments.program, {})
    manifest.write()
    status = supervise(arguments.program, folder)
    manifest.finish(exit_status=status)
    return status
