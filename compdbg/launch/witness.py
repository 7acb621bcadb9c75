"""Tells a signal to the supervisor alone from one to its whole process group.

The program is in the supervisor's process group, as it would be in the shell's without us. A
signal to the group (`kill -INT -- -PGID`, a batch system's to every process) has reached the
program already and must not be forwarded: the second would interrupt its clean-up. No signal says
how far it went; so a second process stands in the group, blocks everything, and is asked what has
reached it.

No time is waited for: the kernel posts a signal to all of a group under its lock of the process
tree, and whoever asks first makes a call that takes that lock for itself.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal

from compdbg.launch.prctl import die_with_parent

_PATIENCE_S = 5.0
"""For the answer; a witness that was stopped or killed gives none."""
_NOBODY = -1


class Witness:
    """The process beside the program. `close` ends it; it dies with the supervisor."""

    def __init__(self) -> None:
        """Fork it; all signals that it is to see are blocked already."""
        asked, self._ask = os.pipe()
        self._answers, answer = os.pipe()
        supervisor = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                die_with_parent(supervisor)
                _watch(asked, answer)
            finally:
                os._exit(0)
        os.close(asked)
        os.close(answer)

    def saw(self, number: int, sender: int) -> bool:
        """Whether the witness got this signal from the same sender too; it forgets it thereby."""
        _wait_for_posting()
        try:
            os.write(self._ask, bytes([number]))
        except BrokenPipeError:
            return False
        if not select.select([self._answers], [], [], _PATIENCE_S)[0]:
            return False
        return os.read(self._answers, 64) == b"%d\n" % sender

    def close(self) -> None:
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._ask)
        os.close(self._answers)


def _wait_for_posting() -> None:
    """Let a signal that is being posted to the group reach all: `setpgid` takes the lock that it is under."""
    with contextlib.suppress(OSError):  # the leader of a session may not; the lock was taken all the same
        os.setpgid(0, os.getpgrp())


def _watch(asked: int, answer: int) -> None:
    low, high = sorted((asked, answer))
    for first, last in ((0, low), (low + 1, high), (high + 1, 65536)):
        os.closerange(first, last)
    while number := os.read(asked, 1):
        info = signal.sigtimedwait({number[0]}, 0)
        os.write(answer, b"%d\n" % (info.si_pid if info else _NOBODY))
