"""Who made and who applies a pass, and at which stage: read from code names on the stack.

No frame's `f_locals` is touched: on Python 3.11 and 3.12 reading it keeps every local variable of
that frame alive, and refreshes a dict that the program may have from `locals()`.
"""

from __future__ import annotations

import re
import sys
import threading
import weakref
from types import FrameType
from typing import Any

from msgspec import Struct

from compdbg.hooks.userline import is_torch_file

_STAGES = {"pre_grad_passes": "pre-grad", "joint_graph_passes": "joint", "post_grad_passes": "post-grad"}
_MAX_FRAMES = 60
_METHOD = re.compile(r"(?:^|\.)(?P<cls>[^.<>]+)\.(?P<name>[^.<>]+)$")
_OUR_HOOKS = __file__.rpartition("/")[0] + "/"
_OUR_COMPILER = __file__.rsplit("/", 2)[0] + "/compiler/"

_holders: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
_here = threading.local()


class Owner(Struct, frozen=True):
    """The class that a pass belongs to, if it has one of its own, and Inductor's stage."""

    class_name: str | None
    stage: str


def held_by(matcher_pass: Any, holder: Any) -> None:
    """Note that the object `holder` of the configuration has this pass, and no other, in an attribute."""
    if holder is not None:
        _holders[matcher_pass] = type(holder).__name__


def maker_of(frame: FrameType | None) -> str | None:
    """The class in whose `__init__` a pass is made; None where the same `__init__` makes several."""
    name = None if frame is None else _class_of(frame, "__init__")
    if frame is None or name is None:
        return None
    last, _here.made = getattr(_here, "made", None), (id(frame), frame.f_code, frame.f_lasti)
    again = last is not None and last[:2] == (id(frame), frame.f_code) and last[2] < frame.f_lasti
    return None if again else _derived(frame, name)


def _derived(frame: FrameType, name: str) -> str:
    """The class whose `__init__` called this one by `super()`, perhaps through a decorator's wrapper."""
    base, step = frame.f_globals.get(name), frame.f_back
    while step is not None:
        outer = _class_of(step, "__init__")
        if outer is None and "<locals>" not in step.f_code.co_qualname:
            break
        cls = None if outer is None else step.f_globals.get(outer)
        if outer is not None:
            if not (isinstance(cls, type) and isinstance(base, type) and issubclass(cls, base)):
                break
            name, base = outer, cls
        step = step.f_back
    return name


def owner_of(matcher_pass: Any, maker: str | None, depth: int | None) -> Owner:
    """The owner as known from the configuration, from where it was made, or from who calls `apply`.

    With `depth`, the caller that many frames up is applying the pass now.
    """
    own = type(matcher_pass).__name__
    name = own if own != "PatternMatcherPass" else _holders.get(matcher_pass) or maker
    frame: FrameType | None = None if depth is None else sys._getframe(depth)
    in_user_code = True
    for _ in range(_MAX_FRAMES):
        if frame is None:
            break
        code = frame.f_code
        if is_torchs_own(code.co_filename) and not code.co_filename.startswith(_OUR_HOOKS):
            in_user_code = False
            if code.co_name in _STAGES:
                return Owner(name, _STAGES[code.co_name])
        elif in_user_code and name is None:
            name = _calling_pass(frame)
        frame = frame.f_back
    return Owner(name, "")


def _calling_pass(frame: FrameType) -> str | None:
    """The class whose method this frame runs, if it is a custom pass: if it has a `uuid`."""
    name = _class_of(frame, "")
    cls = frame.f_globals.get(name) if name is not None else None
    return name if isinstance(cls, type) and callable(getattr(cls, "uuid", None)) else None


def _class_of(frame: FrameType, method: str) -> str | None:
    found = _METHOD.search(frame.f_code.co_qualname)
    return found["cls"] if found and method in ("", found["name"]) else None


def is_torchs_own(filename: str) -> bool:
    """torch's code or our hooks'; the fusion passes of our own compiler are custom like anyone's."""
    return is_torch_file(filename) and not filename.startswith(_OUR_COMPILER)


def is_torch_class(cls: type[Any]) -> bool:
    return cls.__module__.partition(".")[0] in ("torch", "builtins", "functools")
