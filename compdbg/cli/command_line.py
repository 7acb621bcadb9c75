"""Where the options of `compdbg run` end and the program's command line begins.

Everything after the program's first word is the program's, untouched, whatever it looks like.
Python's own options may stand before it, as in `python -X dev -W error script.py`.
"""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Sequence
from typing import NamedTuple

from compdbg.cli.errors import UsageError

_FLAGS = frozenset("bBdEiIOPqRsSuvx")
_TAKE_VALUE = frozenset("WX")
_BEGIN_PROGRAM = frozenset("cm")
_LATER = {
    "--sizes": 1,
}
"""Options of the contract whose feature is not in this version, with the values that they take."""
_OVERRIDES = ("-cc.", "--cc.")
"""Set one value of the built-in compiler's configuration in the program."""


class CommandLine(NamedTuple):
    """The words of `compdbg run`, sorted by whom they are for."""

    options: list[str]
    """Ours, for argparse."""
    hooks_off: list[str]
    """Names of hooks, from `--no-HOOK`."""
    interpreter: list[str]
    """Python's own options; empty where `program` is a command."""
    program: list[str]
    """`SCRIPT ARGS`, `-m MODULE ARGS`, `-c CODE ARGS`, or `COMMAND ARGS`."""
    is_command: bool
    overrides: dict[str, str]
    """Keys of the built-in compiler's configuration, with the texts of their values."""


def split(words: Sequence[str], parser: argparse.ArgumentParser) -> CommandLine:
    """Sort the words.

    Raises:
        UsageError: an unknown option, an option without its value, no program.
    """
    line = CommandLine([], [], [], [], False, {})
    rest = list(words)
    while rest:
        word = rest[0]
        if word == "--":
            return line._replace(program=_some(rest[1:], "-- needs a COMMAND"), is_command=True)
        if word == "-" or not word.startswith("-"):
            return line._replace(program=rest)
        if _take_ours(rest, line, parser):
            continue
        if _take_pythons(rest, line):
            return line._replace(program=rest)
    if {"-h", "--help"} & set(line.options):
        return line
    raise UsageError("no program given; usage: compdbg run [OPTIONS] SCRIPT [ARGS...]")


def _take_ours(rest: list[str], line: CommandLine, parser: argparse.ArgumentParser) -> bool:
    """Move one option of ours, with its value, from `rest` to `line`; whether there was one."""
    word = rest[0]
    name, equals, _ = word.partition("=")
    known = {text: action for action in parser._actions for text in action.option_strings}
    if name in _LATER:
        raise UsageError(f"{name} is not available in this version of compdbg")
    if name.startswith(_OVERRIDES) or word == "--enforce-eager":
        line.overrides.update([_override(word)])
        del rest[0]
        return True
    if name in known:
        wanted = known[name].nargs
        if equals and wanted == 0:
            raise UsageError(f"{name} takes no value")
        count = 1 if wanted in (0, "?") or equals else 2
        if len(rest) < count:
            raise UsageError(f"{name} needs a value")
        line.options.extend(rest[:count])
        del rest[:count]
        return True
    if word.startswith("-o"):
        line.options.extend(["-o", word[2:].removeprefix("=")])
    elif word.startswith("--no-"):
        line.hooks_off.append(_hook(word))
    elif word.startswith("--") and name != "--check-hash-based-pycs":
        near = difflib.get_close_matches(word, known, 1)
        raise UsageError(f"no such option: {word}" + (f"; did you mean {near[0]}?" if near else ""))
    else:
        return False
    del rest[0]
    return True


def _override(word: str) -> tuple[str, str]:
    """The key and the text of `-cc.KEY=VALUE`, which must be one that the compiler would take."""
    from compdbg.compiler.config import CompilationConfig
    from compdbg.compiler.config_values import ConfigError, WrongValue
    from compdbg.compiler.overrides import check_key, replaced, value_of

    if word == "--enforce-eager":
        return "enforce_eager", "true"
    name, equals, text = word.partition("=")
    key = name.partition("cc.")[2]
    try:
        check_key(key)
        if not equals:
            raise UsageError(f"{name} needs =VALUE")
        if key != "enforce_eager":
            replaced(CompilationConfig(), key, value_of(key, text))
    except WrongValue as error:
        raise UsageError(f"{word}: {error.what}{error.as_option(name)}") from None
    except ConfigError as error:
        raise UsageError(f"{name}: {error}") from None
    return key, text


def _hook(word: str) -> str:
    from compdbg.hooks.installed import hook_names

    given = word.removeprefix("--no-")
    for name in hook_names():
        if given.replace("-", "_") == name.replace("-", "_"):
            return name
    near = difflib.get_close_matches(given.replace("-", "_"), hook_names(), 1)
    raise UsageError(
        f"no such option: {word}; "
        + (f"did you mean --no-{near[0]}?" if near else f"hooks are: {', '.join(hook_names())}")
    )


def _take_pythons(rest: list[str], line: CommandLine) -> bool:
    """Move one option of Python's to `line`; True where it is the program, which stays in `rest`."""
    word = rest[0]
    if word.startswith("--"):  # --check-hash-based-pycs
        count = 1 if "=" in word else 2
    else:
        count = 1
        for position, letter in enumerate(word[1:], 2):
            value_follows = position == len(word)
            if letter in _BEGIN_PROGRAM:
                _some(rest[1:] if value_follows else [word], f"-{letter} needs {_NEEDS[letter]}")
                return True
            if letter in _TAKE_VALUE:
                count = 2 if value_follows else 1
                break
            if letter not in _FLAGS:
                raise UsageError(f"no such option: {word}")
    if len(rest) < count:
        raise UsageError(f"{word} needs a value")
    line.interpreter.extend(rest[:count])
    del rest[:count]
    return False


_NEEDS = {"c": "CODE", "m": "a MODULE"}


def _some(words: list[str], complaint: str) -> list[str]:
    if not words:
        raise UsageError(complaint)
    return words
