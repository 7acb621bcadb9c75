"""Run a program exactly as Python would, and record what torch compiles in it."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import sys
from typing import NoReturn

from compdbg.cli.command_line import CommandLine, split
from compdbg.cli.errors import NOT_EXECUTABLE, NOT_FOUND, CommandError, UsageError
from compdbg.record.options import Options

USAGE = """compdbg run [OPTIONS] SCRIPT [ARGS...]
       compdbg run [OPTIONS] -m MODULE [ARGS...]
       compdbg run [OPTIONS] -c CODE [ARGS...]
       compdbg run [OPTIONS] -- COMMAND [ARGS...]"""
EPILOG = (
    "Options of Python (-X dev, -W error, -u, ...) may stand among these. --no-HOOK leaves a hook out; "
    "`compdbg doctor` lists them. -cc.KEY=VALUE sets one value of the built-in compiler's configuration in "
    "the program. What follows SCRIPT, MODULE, CODE or COMMAND goes to the program."
)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.usage = USAGE
    parser.epilog = EPILOG
    add = parser.add_argument
    add("-o", dest="output", metavar="DIR", help="folder for the run (default: one below compdbg-runs/)")
    add("--force", action="store_true", help="overwrite a run that DIR holds already")
    add(
        "--report",
        nargs="?",
        const="",
        metavar="FILE",
        help="write an HTML report when the program has ended",
    )
    add("--quiet", action="store_true", help="add nothing to the program's stderr")
    add(
        "--audit", choices=("off", "budget", "all"), default="budget",
        help="check dropped guards on later calls: on none, within 1%% of a frame's time, on all",
    )  # fmt: skip
    add("--inductor-patterns", action="store_true", help="match attempts of Inductor's own patterns too")
    add(
        "--check-ops", action="store_true",
        help="check some calls of each custom op: what it writes to, and its results against its fake",
    )  # fmt: skip
    add(
        "--check-replacements", action="store_true",
        help="run what a fusion replaced and its replacement on random inputs, and compare",
    )  # fmt: skip
    add(
        "--compare", choices=("eager",), default="",
        help="on some calls of each compiled graph, compare its results with eager's",
    )  # fmt: skip
    add("--no-source", action="store_true", help="record neither source nor generated code")
    add(
        "--enforce-eager", action="store_true",
        help="turn the built-in compiler off in the program",
    )  # fmt: skip


def parse(words: list[str]) -> argparse.Namespace:
    """The command line of `run`: argparse can't tell where the program's words begin.

    Raises:
        UsageError: it is wrong; nothing has been started.
    """
    from compdbg.cli.main import Parser

    parser = Parser(prog="compdbg run", description=__doc__, allow_abbrev=False)
    configure(parser)
    line = split(words, parser)
    arguments = parser.parse_args(line.options)
    arguments.line = line
    return arguments


def execute(arguments: argparse.Namespace) -> NoReturn:
    """Run the program; leaves this process as the program left, so it does not return."""
    import msgspec

    from compdbg.launch.environment import recording_environment
    from compdbg.launch.supervisor import become, end_like, supervise
    from compdbg.record.lines import Lines, warn
    from compdbg.record.manifest import Manifest

    line: CommandLine = arguments.line
    executable = _executable(line)
    argv = line.program if line.is_command else [executable, *line.interpreter, *line.program]
    options = _options(arguments)
    try:
        folder = _folder(arguments)
        manifest = Manifest(folder, [*line.interpreter, *line.program], msgspec.to_builtins(options))
        manifest.write()
    except OSError as error:
        warn(f"not recording: {error}")
        become(executable, argv)
    environment = recording_environment(folder, options, foreign=line.is_command)
    _override(environment, line.overrides)
    try:
        ending = supervise(executable, argv, environment)
    except OSError as error:  # no format that can be executed, too many arguments
        manifest.finish(NOT_EXECUTABLE)
        raise CommandError(f"{argv[0]}: {error.strerror}", NOT_EXECUTABLE) from None
    lines = Lines(folder, warns=False)  # what is lost of this stands in the manifest too
    lines.note("child-end", **ending._asdict())
    lines.close()
    manifest.finish(ending.exit_status, ending.signal)
    if not arguments.quiet:
        from compdbg.cli.last_lines import print_last_lines

        print_last_lines(manifest, arguments.output, list(line.overrides), _report_file(arguments, folder))
    if arguments.report is not None:
        _report(folder, _report_file(arguments, folder))
    end_like(ending)


def _report_file(arguments: argparse.Namespace, folder: str) -> str | None:
    """The file that `--report` asks for: the one named, or `<run>.html` here."""
    if arguments.report is None:
        return None
    named: str = arguments.report
    return named or f"{os.path.basename(folder)}.html"


def _report(folder: str, output: str | None) -> None:
    """Write the report of a run that has ended; a fault of ours is told and changes nothing."""
    from compdbg.cli.report import write
    from compdbg.report.contents import contents
    from compdbg.store.locate import open_run

    try:
        write(contents(open_run(folder)), output or "-")
    except Exception as error:  # not by `warn`, which is silent where the recorder has warned already
        with contextlib.suppress(OSError):
            os.write(2, f"compdbg: no report: {error}\n".encode("utf-8", "backslashreplace"))


def _override(environment: dict[str, str], overrides: dict[str, str]) -> None:
    """Hand `-cc.` values on to the built-in compiler in the program; they win over inherited ones."""
    if overrides:
        from compdbg.compiler.overrides import CC, command_line

        environment[CC] = json.dumps({**command_line(environment), **overrides})


def _executable(line: CommandLine) -> str:
    """The path of what to execute."""
    if not line.is_command:
        return sys.executable
    name = line.program[0]
    found = shutil.which(name)
    if found is not None:
        return found
    if "/" in name and os.path.exists(name):
        raise CommandError(f"{name}: permission denied", NOT_EXECUTABLE)
    raise CommandError(f"{name}: command not found", NOT_FOUND)


def _options(arguments: argparse.Namespace) -> Options:
    return Options(
        audit=arguments.audit,
        inductor_patterns=arguments.inductor_patterns,
        check_ops=arguments.check_ops,
        check_replacements=arguments.check_replacements,
        compare=arguments.compare,
        source=not arguments.no_source,
        skip=tuple(arguments.line.hooks_off),
    )


def _folder(arguments: argparse.Namespace) -> str:
    """The folder of this run, empty.

    Raises:
        UsageError: there is something in it.
        OSError: it can't be made.
    """
    from compdbg.record.manifest import clear_run, new_run_folder

    if arguments.output is None:
        return new_run_folder(program_name(arguments.line))
    if not arguments.output:
        raise UsageError("-o needs a folder")
    folder: str = os.path.abspath(arguments.output)
    if os.path.exists(folder) and not os.path.isdir(folder):
        raise UsageError(f"{arguments.output} is not a folder")
    if os.path.isdir(folder) and os.listdir(folder):
        if not arguments.force:
            raise UsageError(f"{arguments.output} is not empty; --force overwrites the run in it")
        clear_run(folder)
    os.makedirs(folder, exist_ok=True)
    return folder


def program_name(line: CommandLine) -> str:
    """What a run is named after: the script, the module, the command."""
    first, *more = line.program
    if line.is_command or not first.startswith("-"):
        return first
    if first == "-":
        return "stdin"
    flags, is_module, attached = first.partition("m")
    return (attached or more[0]) if is_module and "c" not in flags else "command"
