"""Explain the findings of a run: cause, evidence, your line of code, what to do."""

from __future__ import annotations

import argparse
import re

from compdbg.cli.errors import UsageError
from compdbg.cli.reading import add_json, check_word, run_is_there, source, width


def configure(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s [-h] [--json] [RUN] [F3]\n       %(prog)s --code [CODE]"
    parser.add_argument(
        "words", nargs="*", metavar="[RUN] [F3]",
        help="a run's folder, its name or a report (default: the newest run); a finding's id (default: all)",
    )  # fmt: skip
    parser.add_argument(
        "--code", metavar="CODE", nargs="?", const="",
        help="print the page of a finding code, or without CODE the list of codes, and exit",
    )  # fmt: skip
    add_json(parser)


def execute(arguments: argparse.Namespace) -> int:
    if arguments.code is not None:
        print(_page(arguments.code), end="")
        return 0
    return _explain(arguments)


def _explain(arguments: argparse.Namespace) -> int:
    from compdbg.report import explain as text
    from compdbg.report import json
    from compdbg.views.explanation import explain
    from compdbg.views.summary import verdict
    from compdbg.views.together import together

    run, wanted = split_words(arguments.words)
    check_word(run, (), "finding")
    shown = source(run)
    chosen = [f for f in shown.findings if wanted is None or f.id == wanted]
    if wanted is not None and not chosen:
        raise UsageError(
            f"this run has no finding {wanted}; it has {len(shown.findings)}: compdbg show findings"
        )
    if arguments.json:
        print(json.answer(shown.run.summary, chosen))
        return 0
    if wanted is None:
        print(verdict(shown))
    for finding in together(chosen):
        print()
        print(text.render(explain(shown, finding), width()), end="")
    return 0


def split_words(words: list[str]) -> tuple[str | None, str | None]:
    """`[RUN] [F3]`: a word like `F3` is a finding; anything else is a run."""
    run = finding = None
    for word in words:
        if re.fullmatch(r"F\d+", word) and finding is None:
            finding = word
        elif run is None:
            run = word
        else:
            raise UsageError(f"{word!r}: one run and one finding at most")
    if run is not None and re.fullmatch(r"[Ff]\d+", run) and not run_is_there(run):
        if finding is not None:
            raise UsageError(f"{finding} and {run} are both findings; one is explained at a time, or all")
        raise UsageError(f"{run!r} is no run here; did you mean {run.upper()}?")
    return run, finding


def _page(code: str) -> str:
    import difflib

    from compdbg.findings.pages import CODES, index, page
    from compdbg.findings.third_party import third_party_codes, third_party_page

    if code == "":
        return index()
    if code in CODES:
        return page(code)
    if code in third_party_codes():
        return third_party_page(code)
    known = [*CODES, *third_party_codes()]
    near = difflib.get_close_matches(code, known, 1)
    hint = f"; did you mean {near[0]}?" if near else f"; there are: {', '.join(known)}"
    raise UsageError(f"no finding code {code!r}{hint}")
