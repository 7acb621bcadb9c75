"""Entry point of `compdbg`: finds the command, runs it, turns errors into one line and a code."""

from __future__ import annotations

import argparse
import difflib
import importlib
import os
import shlex
import sys
import tempfile
import traceback
from collections.abc import Sequence
from types import ModuleType
from typing import NoReturn

import compdbg
from compdbg.cli.errors import OUR_FAULT, UNREADABLE, USAGE, CommandError, UsageError

COMMANDS: dict[str, str] = {
    "run": "run a program and record what torch compiles in it",
    "show": "one view of a run as text: summary, findings, guards, fusion, ...",
    "explain": "the findings, each with cause, evidence, your line and what to do",
    "diff": "what changed between two runs, or two ranks of a run",
    "check": "a gate for CI: a run against expectations, or against an earlier run",
    "tui": "explore a run in the terminal",
    "report": "one self-contained HTML file, or Markdown, for a ticket",
    "runs": "the runs below this directory",
    "doctor": "check the environment and every hook",
    "demo": "a recorded tour on the built-in model",
}


EPILOG = "New here? compdbg demo. Else: compdbg run script.py, then compdbg explain."


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see {self.prog} --help")


def parser(command: str | None = None) -> argparse.ArgumentParser:
    """The parser of the whole command line; only `command`'s own module is imported for it."""
    top = Parser(
        prog="compdbg", description="A debugger for torch.compile.", epilog=EPILOG, allow_abbrev=False
    )
    top.add_argument("--version", action="version", version=f"compdbg {compdbg.__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=Parser)
    for name, summary in COMMANDS.items():
        module = _module(name) if name == command else None
        made = commands.add_parser(
            name, help=summary, description=getattr(module, "__doc__", None), allow_abbrev=False
        )
        if module is not None:
            module.configure(made)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    arguments = argparse.Namespace(json="--json" in words and words[0] != "run")
    try:
        arguments = _parse(words)
        code = int(_module(arguments.command).execute(arguments))
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except CommandError as error:
        return _fail(arguments, error, error.exit_code)
    except Exception as error:
        from compdbg.store.reader import CannotRead

        if isinstance(error, CannotRead):
            return _fail(arguments, error, UNREADABLE)
        return _own_fault(error)


def _parse(words: list[str]) -> argparse.Namespace:
    """A command whose options end where a program begins reads its own words, with its `parse`.

    Raises:
        UsageError: no such command, no such option, a word too many or too few.
    """
    command = words[0] if words and words[0] in COMMANDS else None
    if command is None and words and words[0] not in ("-h", "--help", "--version"):
        raise UsageError(_no_command(words[0]))
    own = getattr(_module(command), "parse", None) if command else None
    arguments: argparse.Namespace
    if own is not None:
        arguments = own(words[1:])
        arguments.command = command
        return arguments
    made = parser(command)
    arguments, over = made.parse_known_args(words)
    if over:
        raise UsageError(_too_much(over[0], made, command))
    return arguments


def _no_command(word: str) -> str:
    if word.startswith("-"):
        return f"no such option: {word}; a command comes first; see compdbg --help"
    near = difflib.get_close_matches(word, COMMANDS, 1)
    if near:
        return f"no such command: {word}; did you mean {near[0]}?"
    if os.path.exists(word):
        return f"no such command: {word}; to run a program: compdbg run {shlex.quote(word)}"
    return f"no such command: {word}; there are: {', '.join(COMMANDS)}"


def _too_much(word: str, made: argparse.ArgumentParser, command: str | None) -> str:
    help_of = f"compdbg {command} --help" if command else "compdbg --help"
    if not word.startswith("-"):
        return f"{word!r} is one word too many; see {help_of}"
    choices = next(a for a in made._actions if isinstance(a, argparse._SubParsersAction)).choices
    known = [o for a in choices[command]._actions for o in a.option_strings] if command else ["--version"]
    near = difflib.get_close_matches(word, known, 1, cutoff=0.7)
    return f"no such option: {word}; " + (f"did you mean {near[0]}?" if near else f"see {help_of}")


def _module(command: str) -> ModuleType:
    return importlib.import_module(f"compdbg.cli.{command}")


def _fail(arguments: argparse.Namespace, error: Exception, code: int) -> int:
    print(f"compdbg: error: {error}", file=sys.stderr)
    if getattr(arguments, "json", False):
        from compdbg.report.json import failure

        print(failure({USAGE: "usage", UNREADABLE: "unreadable"}.get(code, "failed"), str(error)))
    return code


def _own_fault(error: Exception) -> int:
    with tempfile.NamedTemporaryFile("w", prefix="compdbg-", suffix=".txt", delete=False) as saved:
        traceback.print_exception(error, file=saved)
    print(
        f"compdbg: error: our own fault ({type(error).__name__}: {error}); traceback saved in {saved.name}",
        file=sys.stderr,
    )
    return OUR_FAULT


if __name__ == "__main__":
    raise SystemExit(main())
