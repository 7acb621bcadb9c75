"""Signals from outside reach the program once, and the program's end is the command's end."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compdbg.model.run import load
from tests.integration.launching import Went, clean_environment, recording, without_last_lines

PATIENCE_S = 20
COUNTS = """
import signal, sys, time
seen = []
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGWINCH, signal.SIGQUIT):
    signal.signal(number, lambda n, frame: seen.append(signal.Signals(n).name))
print("ready", flush=True)
end = time.monotonic() + 20
while not seen and time.monotonic() < end:
    signal.sigtimedwait([], 0.05)
signal.sigtimedwait([], 0.3)  # a second delivery would come within this
print(seen)
"""
# Not one long sleep: a signal between Python's last look for one and its start would not end it.
WAITS = "import time\nfor i in range(400): i or print('ready', flush=True); time.sleep(0.05)"
CLEANS_UP = """
import time
try:
    for i in range(400): i or print("ready", flush=True); time.sleep(0.05)
finally:
    time.sleep(0.3)
    print("cleaned up", flush=True)
"""
SAYS_PID = "import os, time\nfor i in range(400): i or print(os.getpid(), flush=True); time.sleep(0.05)"


@contextlib.contextmanager
def started(command: list[str | bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """A process in a group of its own, as a shell starts one; gone at the end."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=clean_environment(),
        process_group=0,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for stream in (process.stdout, process.stderr):
            assert stream is not None
            stream.close()


def first_line(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stdout is not None
    return process.stdout.readline()


def to_process(process: subprocess.Popen[bytes], number: int) -> None:
    os.kill(process.pid, number)


def to_group(process: subprocess.Popen[bytes], number: int) -> None:
    os.killpg(process.pid, number)


def signalled(
    command: list[str | bytes], send: Callable[[subprocess.Popen[bytes], int], None], number: int
) -> Went:
    with started(command) as process:
        assert first_line(process) == b"ready\n"
        send(process, number)
        out, err = process.communicate(timeout=PATIENCE_S)
        return Went(process.returncode, out, err)


@pytest.mark.parametrize("send", [to_process, to_group], ids=["to the command", "to its group"])
@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGWINCH, signal.SIGQUIT]
)
def test_a_handler_runs_once(
    number: int, send: Callable[[subprocess.Popen[bytes], int], None], tmp_path: Path
) -> None:
    plain = signalled([sys.executable, "-c", COUNTS], send, number)
    recorded = signalled(recording(tmp_path / "run", "-c", COUNTS), send, number)
    assert plain == (0, f"['{signal.Signals(number).name}']\n".encode(), b"")
    assert without_last_lines(recorded)[0] == plain


@pytest.mark.parametrize("send", [to_process, to_group], ids=["to the command", "to its group"])
@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGUSR2, signal.SIGALRM]
)
@pytest.mark.parametrize("program", [WAITS, CLEANS_UP], ids=["waiting", "cleaning up"])
def test_a_signal_ends_it(
    program: str, number: int, send: Callable[[subprocess.Popen[bytes], int], None], tmp_path: Path
) -> None:
    """`cleaned up` is printed once, after one KeyboardInterrupt: a second would cut it short."""
    folder = tmp_path / "run"
    plain = signalled([sys.executable, "-c", program], send, number)
    recorded, last_lines = without_last_lines(signalled(recording(folder, "-c", program), send, number))
    assert plain.status == -number
    assert recorded == plain
    assert last_lines
    end = load(folder).summary
    assert (end.signal, end.exit_status, end.complete) == (number, None, True)


def test_sigkill_of_the_program_is_the_end_of_the_command(tmp_path: Path) -> None:
    with started(recording(tmp_path / "run", "-c", SAYS_PID)) as process:
        os.kill(int(first_line(process)), signal.SIGKILL)
        assert process.wait(PATIENCE_S) == -signal.SIGKILL
    run = load(tmp_path / "run")
    assert (run.summary.signal, run.summary.complete, run.summary.processes) == (signal.SIGKILL, True, 1)
    assert not run.health.missed


def test_the_program_dies_with_the_command(tmp_path: Path) -> None:
    with started(recording(tmp_path / "run", "-c", SAYS_PID)) as process:
        program = os.pidfd_open(int(first_line(process)))
        process.kill()
        assert select.select([program], [], [], PATIENCE_S)[0], "it is still there"
        os.close(program)
    assert not load(tmp_path / "run").summary.complete


def test_a_command_that_is_no_python_dies_with_it_too(tmp_path: Path) -> None:
    with started(recording(tmp_path / "run", "--", "sh", "-c", "echo $$; exec sleep 20")) as process:
        program = os.pidfd_open(int(first_line(process)))
        process.kill()
        assert select.select([program], [], [], PATIENCE_S)[0], "it is still there"
        os.close(program)


def test_an_interrupt_from_the_terminal_reaches_the_program_once(tmp_path: Path) -> None:
    def at_a_terminal(command: list[str | bytes]) -> tuple[int, bytes]:
        pid, terminal = pty.fork()
        if pid == 0:
            os.execve(command[0], command, clean_environment())
        shown = b""
        while b"ready\r\n" not in shown:
            shown += os.read(terminal, 1024)
        os.write(terminal, b"\x03")
        with contextlib.suppress(OSError):  # Linux reports the end of a terminal so
            while part := os.read(terminal, 1024):
                shown += part
        os.close(terminal)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), shown

    plain = at_a_terminal([sys.executable, "-c", CLEANS_UP])
    recorded = at_a_terminal(recording(tmp_path / "run", "-c", CLEANS_UP))
    assert plain[0] == recorded[0] == -signal.SIGINT
    assert recorded[1].partition(b"compdbg: ")[0] == plain[1]


def test_a_stopped_program_stops_the_command_until_it_is_continued(tmp_path: Path) -> None:
    """What a shell's Ctrl-Z and `fg` do."""
    program = "import os, signal; os.kill(os.getpid(), signal.SIGTSTP); print('continued')"
    with started(recording(tmp_path / "run", "-c", program)) as process:
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        os.killpg(process.pid, signal.SIGCONT)
        assert process.communicate(timeout=PATIENCE_S)[0] == b"continued\n"
        assert process.returncode == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_what_nohup_or_a_background_shell_ignores_stays_ignored(number: int, tmp_path: Path) -> None:
    program = f"import signal, time; print(int(signal.getsignal({int(number)})), flush=True); time.sleep(0.5)"
    shell = f"trap '' {signal.Signals(number).name.removeprefix('SIG')}; exec \"$@\""
    for command in ([sys.executable, "-c", program], recording(tmp_path / "run", "-c", program)):
        with started(["sh", "-c", shell, "sh", *command]) as process:
            assert first_line(process) == b"1\n"  # SIG_IGN
            os.kill(process.pid, number)
            assert process.wait(PATIENCE_S) == 0


def test_output_ends_when_the_program_closes_it(tmp_path: Path) -> None:
    program = textwrap.dedent(
        """
        import os, sys
        os.close(1)
        sys.stdin.read()
        """
    )
    with subprocess.Popen(
        recording(tmp_path / "run", "-c", program),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=clean_environment(),
    ) as process:
        assert process.stdout is not None
        assert process.stdout.read() == b""  # returns though the program still runs
        assert process.poll() is None
        process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
