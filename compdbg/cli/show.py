"""Show one view of a run as text or JSON."""

from __future__ import annotations

import argparse

from compdbg.cli.errors import UsageError
from compdbg.cli.reading import add_json, check_word, source, width


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="*", metavar="[RUN] [VIEW]", help="a run's folder; a view's name")
    add_json(parser)


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
    return run, view
