"""Frames of hooks are taken out of what the program sees; all others stay."""

from __future__ import annotations

import traceback

from compdbg.hooks import tracebacks
from compdbg.hooks.tracebacks import hide_our_frames


def _as_if_of_a_hook(inner):
    """A wrapper as hooks put around torch's functions, by its file."""
    code = compile("def wrapper(f):\n    return f()\n", tracebacks.__file__, "exec")
    names: dict = {}
    exec(code, names)
    return names["wrapper"](inner)


def fails():
    raise ValueError("inner")


def test_our_frames_are_unlinked_in_place() -> None:
    try:
        _as_if_of_a_hook(fails)
    except ValueError as error:
        hide_our_frames(error)
        seen = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    assert seen == ["test_our_frames_are_unlinked_in_place", "_as_if_of_a_hook", "fails"]


def test_also_in_what_caused_it() -> None:
    try:
        try:
            _as_if_of_a_hook(fails)
        except ValueError as inner:
            raise RuntimeError("outer") from inner
    except RuntimeError as error:
        hide_our_frames(error)
        cause = error.__cause__
        assert cause is not None
        assert "wrapper" not in [frame.name for frame in traceback.extract_tb(cause.__traceback__)]
