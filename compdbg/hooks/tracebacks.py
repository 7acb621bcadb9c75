"""Keeps our wrappers out of the tracebacks that the program sees."""

from __future__ import annotations

from types import TracebackType

_HOOKS = __file__.rsplit("/", 1)[0] + "/"
_DEEPEST = 20


def hide_our_frames(error: BaseException) -> None:
    """Unlink the frames of hooks from the traceback of `error` and of what caused it."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting and len(seen) < _DEEPEST:
        each = waiting.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        shown = _without_ours(each.__traceback__)
        if shown is not each.__traceback__:
            each.__traceback__ = shown
        inner = getattr(each, "inner_exception", None)
        waiting += [each.__cause__, each.__context__]
        if isinstance(inner, BaseException):
            waiting.append(inner)


def _without_ours(first: TracebackType | None) -> TracebackType | None:
    """The traceback with our frames unlinked in place."""
    while first is not None and _is_ours(first):
        first = first.tb_next
    step = first
    while step is not None and step.tb_next is not None:
        if _is_ours(step.tb_next):
            step.tb_next = step.tb_next.tb_next
        else:
            step = step.tb_next
    return first


def _is_ours(step: TracebackType) -> bool:
    return step.tb_frame.f_code.co_filename.startswith(_HOOKS)
