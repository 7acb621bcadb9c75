"""Tells a signal to the supervisor alone from one to its whole process group.

The program is in the supervisor's process group, as it would be in the shell's without us. A
signal to the group (`kill -INT -- -PGID`, a batch system's to every process) has reached the
program already and must not be forwarded: the second would interrupt its clean-up. No signal says
how far it went; so a second process stands in the group, blocks everything, and notes what it gets.
"""

from __future__ import annotations

import os
import select
import signal

from compdbg.launch.prctl import die_with_parent

_PATIENCE_S = 0.03
"""A signal to a group is posted to all within one system call; this is time to wake up and note it."""


class Witness:
    """The process beside the program. `close` ends it; it dies with the supervisor."""

    def __init__(self, signals: set[signal.Signals]) -> None:
        self._notes, write = os.pipe()
        self._seen: list[bytes] = []
        supervisor = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                die_with_parent(supervisor)
                _watch(write, signals - {signal.SIGCHLD})
            finally:
                os._exit(0)
        os.close(write)

    def saw(self, number: int, sender: int) -> bool:
        """Whether the witness got this signal from the same sender too."""
        wanted = b"%d %d" % (number, sender)
        while wanted not in self._seen:
            if not select.select([self._notes], [], [], _PATIENCE_S)[0]:
                return False
            notes = os.read(self._notes, 4096).splitlines()
            if not notes:
                return False
            self._seen += notes
        self._seen.remove(wanted)
        return True

    def close(self) -> None:
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._notes)


def _watch(write: int, signals: set[signal.Signals]) -> None:
    os.closerange(0, write)
    os.closerange(write + 1, 65536)
    while True:
        info = signal.sigwaitinfo(signals)
        os.write(write, b"%d %d\n" % (info.si_signo, info.si_pid))
