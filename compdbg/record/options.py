"""What `compdbg run` was told about recording, as it travels to every process of the run."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class Options(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Recording options; the command line's names."""

    audit: Literal["off", "budget", "all"] = "budget"
    inductor_patterns: bool = False
    check_ops: bool = False
    check_replacements: bool = False
    compare: Literal["", "eager"] = ""
    source: bool = True
    skip: tuple[str, ...] = ()
    """Hooks switched off by `--no-HOOK`."""


_current = Options()


def current() -> Options:
    """The options of the session of this process; hooks read them here."""
    return _current


def set_current(options: Options) -> None:
    global _current
    _current = options
