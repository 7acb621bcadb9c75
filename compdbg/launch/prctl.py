"""What Linux offers to keep parent and child together; nothing elsewhere."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_prctl = getattr(ctypes.CDLL(None), "prctl", None) if sys.platform == "linux" else None


def die_with_parent(parent: int) -> None:
    """SIGKILL this process when `parent` dies; it holds through exec.

    Linux means the thread that forked, not the process: call it only in the child of a process
    that forks from its main thread.
    """
    if _prctl is not None:
        _prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:  # it died before we asked
            os._exit(128 + signal.SIGKILL)


def leave_no_core() -> None:
    """This process is about to die of its child's signal; the core that matters is the child's."""
    if _prctl is not None:
        _prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
