"""Check a run against expectations from a file, or against an earlier run: a gate for CI."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from compdbg.cli.errors import FAILED, FINE, CommandError, UsageError
from compdbg.cli.reading import add_json, source, width

if TYPE_CHECKING:
    from compdbg.expect.expectations import Expectations
    from compdbg.expect.judge import Verdict
    from compdbg.views.base import Source


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("run", nargs="?", metavar="RUN", help="a run's folder; the newest run where it is left out")
    add("--expect", metavar="FILE.toml", action="append", default=[], help="what the run is expected to be")
    add("--baseline", metavar="RUN", help="a run than which this one must not be worse")
    add("--markdown", action="store_true", help="print GitHub-flavoured Markdown, for a job's summary")
    add_json(parser)


def execute(arguments: argparse.Namespace) -> int:
    from compdbg.expect.judge import failed
    from compdbg.report import check_markdown, json, text
    from compdbg.views.check import check

    if not arguments.expect and arguments.baseline is None:
        raise UsageError("nothing to check against; give --expect FILE.toml or --baseline RUN")
    if arguments.json and arguments.markdown:
        raise UsageError("--json and --markdown exclude each other")
    expected = [_read(Path(path)) for path in arguments.expect]
    checked = source(arguments.run)
    verdicts = [v for each in expected for v in _judge(checked, each)]
    if arguments.baseline is not None:
        verdicts += _judge_by(source(arguments.baseline), checked)
    named = [*arguments.expect, *([arguments.baseline] if arguments.baseline else [])]
    what = " and ".join(Path(name).name or name for name in named)
    if arguments.json:
        print(json.answer(checked.run.summary, verdicts))
    elif arguments.markdown:
        print(check_markdown.render(checked.run.summary, verdicts, what), end="")
    else:
        print(text.render(check(verdicts, what), width()), end="")
    return FAILED if failed(verdicts) else FINE


def _read(path: Path) -> Expectations:
    from compdbg.expect.file import NoExpectations, WrongExpectation, read_expectations

    try:
        return read_expectations(path)
    except WrongExpectation as error:
        raise UsageError(str(error)) from None
    except NoExpectations as error:
        raise CommandError(str(error)) from None


def _judge(checked: Source, expected: Expectations) -> list[Verdict]:
    from compdbg.expect.judge import judge

    return judge(checked.run, checked.findings, expected)


def _judge_by(baseline: Source, checked: Source) -> list[Verdict]:
    from compdbg.expect.baseline import judge_by

    return judge_by(baseline.run, baseline.findings, checked.run, checked.findings)
