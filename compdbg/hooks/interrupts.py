"""Exceptions that arrive from outside (Ctrl-C, an alarm) while our code runs where it must not raise."""

from __future__ import annotations

import _thread
import signal
import threading
from types import TracebackType

from compdbg.hooks.userline import is_our_file, is_torch_file


def deliver_again(error: BaseException) -> bool:
    """Raise it in the program soon after our code has returned. False if it is a fault of ours.

    A signal handler raises wherever Python code happens to run. The innermost frame tells: it is
    the handler's, not ours or torch's.
    """
    if isinstance(error, Exception) and not _from_outside(error.__traceback__):
        return False
    main = threading.current_thread() is threading.main_thread()
    if isinstance(error, KeyboardInterrupt) and main:
        _thread.start_new_thread(signal.pthread_kill, (threading.get_ident(), signal.SIGINT))
    else:
        _thread.start_new_thread(_raise_in, (threading.get_ident(), type(error)))
    return True


def _from_outside(step: TracebackType | None) -> bool:
    innermost = ""
    while step is not None:
        innermost = step.tb_frame.f_code.co_filename
        step = step.tb_next
    return bool(innermost) and not is_our_file(innermost) and not is_torch_file(innermost)


def _raise_in(thread: int, kind: type[BaseException]) -> None:
    """In a thread of its own, which gets to run when ours has left: from here it would be raised here."""
    import ctypes

    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(kind))
