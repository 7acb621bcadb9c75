"""Who applies a pass, and at which stage: read from the frames between Inductor and `apply`."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

from msgspec import Struct

from compdbg.hooks.userline import is_torch_file

_STAGES = {"pre_grad_passes": "pre-grad", "joint_graph_passes": "joint", "post_grad_passes": "post-grad"}
_MAX_FRAMES = 60
_OUR_HOOKS = __file__.rpartition("/")[0] + "/"
_OUR_COMPILER = __file__.rsplit("/", 2)[0] + "/compiler/"


class Owner(Struct, frozen=True):
    """The class of the object that applies a pass, if it has one of its own, and Inductor's stage."""

    class_name: str | None
    stage: str


def owner_of(matcher_pass: Any, depth: int) -> Owner:
    """Look up the stack from `depth`; cheap enough for once an apply of a custom pass."""
    name = _own_class(matcher_pass)
    frame: FrameType | None = sys._getframe(depth)
    in_user_code = True
    for _ in range(_MAX_FRAMES):
        if frame is None:
            break
        code = frame.f_code
        if is_torchs_own(code.co_filename) and not code.co_filename.startswith(_OUR_HOOKS):
            in_user_code = False
            if code.co_name in _STAGES:
                return Owner(name, _STAGES[code.co_name])
        elif in_user_code and name is None and code.co_argcount:
            name = _class_of(frame.f_locals.get(code.co_varnames[0]), matcher_pass)
        frame = frame.f_back
    return Owner(name, "")


def _own_class(matcher_pass: Any) -> str | None:
    cls = type(matcher_pass)
    return None if cls.__name__ == "PatternMatcherPass" else cls.__name__


def _class_of(holder: Any, matcher_pass: Any) -> str | None:
    """The class of an object that is a custom pass, or that holds this pass and no other."""
    cls = type(holder)
    if holder is None or isinstance(holder, type) or is_torch_class(cls):
        return None
    kind = type(matcher_pass)
    held = [value for value in getattr(holder, "__dict__", {}).values() if isinstance(value, kind)]
    holds_it_alone = len(held) == 1 and held[0] is matcher_pass
    if holds_it_alone or (not held and callable(getattr(cls, "uuid", None))):
        return cls.__name__
    return None


def is_torchs_own(filename: str) -> bool:
    """torch's code or our hooks'; the fusion passes of our own compiler are custom like anyone's."""
    return is_torch_file(filename) and not filename.startswith(_OUR_COMPILER)


def is_torch_class(cls: type[Any]) -> bool:
    return cls.__module__.partition(".")[0] in ("torch", "builtins", "functools")
