"""Runs the program as a supervised child: forwards signals, waits, and dies as it died."""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Mapping
from typing import NamedTuple, NoReturn

from compdbg.launch.prctl import die_with_parent, leave_no_core
from compdbg.launch.witness import Witness

_SIGNALS = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
_JOB_CONTROL = {signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
"""Python ignores these from its start; a program that is started must find them as a shell leaves them."""


class Ending(NamedTuple):
    """How the program ended: one of exit status and signal is None."""

    pid: int
    exit_status: int | None
    signal: int | None
    duration_s: float


def supervise(executable: str, argv: list[str], environment: Mapping[str, str]) -> Ending:
    """Run a program to its end.

    From here on all signals are blocked in this process and taken one at a time; they stay
    blocked when it returns, so that nothing cuts the end record short.

    Raises:
        OSError: the command could not be executed.
    """
    _occupy_streams()
    began = time.monotonic()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    children = signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # inherited as ignored, none could be waited for
    pid = _start(executable, argv, environment, mask, children)
    witness = _witness()  # after the program, which so is our first child
    _let_go_of_streams()
    status = _wait(pid, witness)
    if witness is not None:
        witness.close()
    code = os.waitstatus_to_exitcode(status)
    elapsed = time.monotonic() - began
    return Ending(pid, code, None, elapsed) if code >= 0 else Ending(pid, None, -code, elapsed)


def end_like(ending: Ending) -> NoReturn:
    """Leave this process as the program left: with its exit status, or by its signal."""
    if ending.signal is not None:
        leave_no_core()
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        if ending.signal != signal.SIGKILL:
            signal.signal(ending.signal, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {ending.signal})
        os.kill(os.getpid(), ending.signal)
    os._exit(ending.exit_status if ending.exit_status is not None else 128 + (ending.signal or 0))


def become(executable: str, argv: list[str]) -> NoReturn:
    """Leave the place to the program, unsupervised: there is nothing to record into."""
    _unignore()
    os.execv(executable, argv)


def _unignore() -> None:
    for number in _IGNORED_BY_PYTHON:
        signal.signal(number, signal.SIG_DFL)


def _start(
    executable: str,
    argv: list[str],
    environment: Mapping[str, str],
    mask: set[int],
    children: object,
) -> int:
    supervisor = os.getpid()
    failure, report = os.pipe()  # closed on exec: an empty read means that the program has started
    pid = os.fork()
    if pid == 0:
        try:
            die_with_parent(supervisor)
            _unignore()
            if children == signal.SIG_IGN:
                signal.signal(signal.SIGCHLD, signal.SIG_IGN)
            if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
                signal.signal(signal.SIGINT, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            os.execve(executable, argv, environment)
        except OSError as error:
            os.write(report, b"%d" % (error.errno or 0))
        finally:
            os._exit(127)
    os.close(report)
    with os.fdopen(failure, "rb") as stream:
        reason = stream.read()
    if reason:
        os.waitpid(pid, 0)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        raise OSError(int(reason), os.strerror(int(reason)), executable)
    return pid


def _witness() -> Witness | None:
    try:
        return Witness()
    except OSError:  # no more processes allowed: signals to the group may reach the program twice
        return None


def _occupy_streams() -> None:
    """Where we were started without stdin, stdout or stderr, keep our pipes off their numbers.

    What stands in is closed on exec: the program is without them as we are.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)


def _let_go_of_streams() -> None:
    """Who reads the program's output must see its end when the program closes it, not when we do."""
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.close(nothing)


def _wait(pid: int, witness: Witness | None) -> int:
    """Pass signals on until the program has ended; its wait status."""
    while True:
        info = signal.sigwaitinfo(_SIGNALS)
        if info.si_signo != signal.SIGCHLD:
            if _is_for_us_alone(info, witness):
                os.kill(pid, info.si_signo)
            continue
        ended, status = os.waitpid(pid, os.WNOHANG | os.WUNTRACED)
        if ended and os.WIFSTOPPED(status):
            if os.WSTOPSIG(status) in _JOB_CONTROL:  # the shell waits for us to stop, and continues us
                os.kill(os.getpid(), signal.SIGSTOP)
                os.kill(pid, signal.SIGCONT)
        elif ended:
            return status


def _is_for_us_alone(info: signal.struct_siginfo, witness: Witness | None) -> bool:
    """A terminal signals its whole foreground group, so the program has had those; so has a group's."""
    to_the_group = witness is not None and witness.saw(info.si_signo, info.si_pid)  # always: it must forget
    sent_by_a_process = info.si_code <= 0
    return sent_by_a_process and not to_the_group
