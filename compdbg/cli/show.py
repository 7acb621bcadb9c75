"""Show one view of a run as text or JSON."""

from __future__ import annotations

import argparse
import sys
import textwrap
from types import ModuleType

from compdbg.cli.errors import UsageError
from compdbg.cli.reading import add_json, check_word, help_width, run_is_there, source, width


def configure(parser: argparse.ArgumentParser) -> None:
    from compdbg.views.all import VIEWS

    parser.usage = "%(prog)s [-h] [--json] [RUN] [VIEW]"
    parser.add_argument(
        "words", nargs="*", metavar="[RUN] [VIEW]",
        help="a run's folder, its name or a report (default: the newest run); a view (default: summary)",
    )  # fmt: skip
    add_json(parser)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = "views:\n" + "\n".join(_said(name, sys.modules[VIEWS[name].__module__]) for name in VIEWS)


def _said(name: str, module: ModuleType) -> str:
    """A view in the help, by the first sentence of its module."""
    text = (module.__doc__ or "").partition("\n\n")[0]
    return textwrap.fill(text, help_width(), initial_indent=f"  {name:<10}", subsequent_indent=" " * 12)


def execute(arguments: argparse.Namespace) -> int:
    from compdbg.report import json, text
    from compdbg.views.all import VIEWS

    run, view = split_words(arguments.words, tuple(VIEWS))
    check_word(run, tuple(VIEWS), "view")
    shown = source(run)
    made = VIEWS[view or "summary"](shown)
    if arguments.json:
        print(json.answer(shown.run.summary, made.items))
    else:
        print(text.render(made, width()), end="")
    return 0


def split_words(words: list[str], views: tuple[str, ...]) -> tuple[str | None, str | None]:
    """`[RUN] [VIEW]`: a word that is a view's name is that; a path that looks like one needs a `/`."""
    run = view = None
    for word in words:
        if word in views and view is None:
            view = word
        elif run is None:
            run = word
        else:
            raise UsageError(f"{word!r} is no view; there are: {', '.join(views)}")
    if run is not None and run in views and not run_is_there(run):
        raise UsageError(f"{view} and {run} are both views; one is shown at a time")
    return run, view
