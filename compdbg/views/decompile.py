"""`python -m compdbg.views.decompile`: codes as they were recorded come in, Python that says the same out.

A process of its own: depyf may fail, hang or crash over what a log holds, and what was done by then
stays done. It looks for literals with `eval`, which would run what a log made up; here it gets an
evaluator of literals instead.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import importlib.util
import io
import resource
import sys
import warnings
from types import CodeType, ModuleType
from typing import Any

import msgspec

from compdbg.views.bytecode import Answer, NoCode, Recorded, code_of

MEMORY = 1_500_000_000


def main() -> None:
    """A line for each: what came of it, or why nothing did."""
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for recorded in msgspec.json.decode(sys.stdin.buffer.read(), type=list[Recorded]):
        sys.stdout.buffer.write(msgspec.json.encode(_answer(recorded)) + b"\n")
        sys.stdout.buffer.flush()


def _answer(recorded: Recorded) -> Answer:
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            said = decompile(code_of(recorded.code))
        return Answer(said.encode("utf-8", "backslashreplace").decode())
    except NoCode as problem:
        return Answer("", f"it is no code of this Python: {problem}")
    except BaseException as error:
        return Answer("", f"depyf: {type(error).__name__}: {error.__cause__ or error}")


def decompile(code: CodeType) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        decompiler = _decompiler()
        return str(decompiler.Decompiler(code).decompile())


def _decompiler() -> Any:
    """depyf's decompiler alone: its package imports torch, which takes seconds, for other things."""
    if "depyf" not in sys.modules:
        found = importlib.util.find_spec("depyf")
        package = ModuleType("depyf")
        package.__path__ = list(found.submodule_search_locations or []) if found is not None else []
        sys.modules["depyf"] = package
    decompiler: Any = importlib.import_module("depyf.decompiler")
    decompiler.eval = ast.literal_eval
    return decompiler


if __name__ == "__main__":
    main()
