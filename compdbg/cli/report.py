"""Write a run as one HTML file for a ticket (or as Markdown), that the next person opens offline."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from compdbg.cli.errors import UsageError
from compdbg.cli.reading import add_json, check_word

if TYPE_CHECKING:
    from compdbg.report.contents import Contents


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("run", nargs="?", metavar="RUN", help="a run's folder or an earlier report (default: the newest run)")
    add("-o", dest="output", metavar="FILE", help="the file to write; - is stdout (default: RUN.html)")
    add("--markdown", action="store_true", help="Markdown for a ticket's body, on stdout unless -o is given")
    add("--redact", action=argparse.BooleanOptionalAction, default=True,
        help="leave home folders, host and user names and environment values out (default)")  # fmt: skip
    add("--force", action="store_true", help="overwrite FILE even if it is no report")
    add_json(parser)


def execute(arguments: argparse.Namespace) -> int:
    from compdbg.report import json
    from compdbg.report.contents import contents
    from compdbg.store.locate import open_run

    check_word(arguments.run, (), "run")
    output = arguments.output
    _check(output, arguments.force)
    made = contents(open_run(arguments.run), redact=arguments.redact)
    folder = made.source.run.log.folder
    if output is None:
        output = "-" if arguments.markdown else f"{folder.name.removesuffix('.html')}.html"
        _check(output, arguments.force)
    size = write(made, output, markdown=arguments.markdown)
    if arguments.json and output != "-":
        log = made.carried
        item = {"file": output, "bytes": size, "redactions": made.redactions, "left_out": list(log.left_out)}
        print(json.answer(made.source.run.summary, [item]))
    elif output != "-":
        within = "" if arguments.markdown else f"; the run is in it: compdbg explain {shlex.quote(output)}"
        print(f"{output}: {size / 1e3:,.0f} kB{within}")
    return 0


def write(made: Contents, output: str, *, markdown: bool = False) -> int:
    """Write a report; its size in bytes.

    Raises:
        UsageError: the file can't be written.
    """
    from compdbg.report.markdown import markdown as as_markdown
    from compdbg.report.page.document import document

    content = (as_markdown(made) if markdown else document(made)).encode("utf-8", "backslashreplace")
    if output == "-":
        sys.stdout.buffer.write(content)
        return len(content)
    partial = f"{output}.partial"
    try:
        Path(partial).write_bytes(content)
        os.replace(partial, output)
    except OSError as error:
        raise UsageError(f"{output}: {error.strerror}") from None
    return len(content)


def _check(output: str | None, force: bool) -> None:
    """A file that is there and is no report of ours is not overwritten by a slip of the fingers.

    Raises:
        UsageError: it is there.
    """
    from compdbg.store.embedded import is_report

    if output is None or output == "-" or force:
        return
    path = Path(output)
    if path.is_dir():
        raise UsageError(f"{output} is a folder; -o names a file")
    if path.exists() and path.stat().st_size and not is_report(path):
        raise UsageError(f"{output} is there already and is no report of compdbg; --force overwrites it")
