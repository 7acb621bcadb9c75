"""Exceptions that arrive from outside (Ctrl-C, an alarm) while our code runs where it must not raise."""

from __future__ import annotations

import _thread
import threading
from types import TracebackType

from compdbg.hooks.userline import is_our_file, is_torch_file


def deliver_again(error: BaseException) -> bool:
    """Raise it in the program as soon as our code has returned. False if it is a fault of ours.

    An exception of a signal handler is raised wherever Python code happens to run. The innermost
    frame tells: it is the handler's, neither ours nor torch's, or there is no frame but ours for
    KeyboardInterrupt and SystemExit.
    """
    if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
        _thread.interrupt_main()
        return True
    if isinstance(error, Exception) and not _from_outside(error.__traceback__):
        return False
    _raise_later(type(error))
    return True


def _from_outside(step: TracebackType | None) -> bool:
    innermost = ""
    while step is not None:
        innermost = step.tb_frame.f_code.co_filename
        step = step.tb_next
    return bool(innermost) and not is_our_file(innermost) and not is_torch_file(innermost)


def _raise_later(kind: type[BaseException]) -> None:
    import ctypes

    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(threading.get_ident()), ctypes.py_object(kind))
