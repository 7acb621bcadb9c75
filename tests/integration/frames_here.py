"""What the tests of frames share: programs compiled in this process with a backend that costs nothing."""

from __future__ import annotations

import contextlib
import functools
import linecache
from collections.abc import Callable, Iterator
from typing import Any

import torch

import compdbg
from compdbg.findings.base import Finding
from compdbg.findings.collect import find_all

CODES = {
    "graph-break",
    "recompiles",
    "recompile-limit",
    "compile-failed",
    "nothing-compiled",
    "guards-kept",
    "dim-specialised",
    "recorder-degraded",
}
"""The codes under test here; others are of the layers below Dynamo."""

ones = torch.ones

compiled = functools.partial(torch.compile, backend="eager")
"""No function around it: the request's line is the test's own."""


@contextlib.contextmanager
def tried() -> Iterator[None]:
    """The program catches what its compile raises."""
    with contextlib.suppress(Exception):
        yield


def findings(run: Any) -> list[Finding]:
    return [finding for finding in find_all(run.load()) if finding.code in CODES]


def alarms(run: Any) -> list[str]:
    """Codes of errors and warnings: none for a clean program."""
    return [finding.code for finding in findings(run) if finding.severity != "info"]


def only(run: Any, code: str) -> Finding:
    """The one alarm of the run, which must be of this code."""
    assert alarms(run) == [code], [(f.code, f.title) for f in findings(run)]
    return next(finding for finding in findings(run) if finding.severity != "info")


def line_of(function: Callable[..., Any], text: str) -> int:
    """The line of a function's source that holds `text`."""
    code = function.__code__
    for number in range(code.co_firstlineno, code.co_firstlineno + 40):
        if text in linecache.getline(code.co_filename, number):
            return number
    raise AssertionError(f"no {text!r} in {code.co_name}")


Record = Callable[..., contextlib.AbstractContextManager[compdbg.record]]
