"""One recorded process: its log from the first moment, its session once torch is there, its end.

The light half of recording. Until the program imports torch, a process costs one file, one line
and no import; `session` (with msgspec, events and hooks) comes in when torch has been imported.
"""

import os
import sys
import time

from compdbg.hooks.userfiles import is_the_users
from compdbg.record.lines import Lines
from compdbg.record.privacy import safe_argv, safe_environment, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from compdbg.record.session import Session

_current: "Process | None" = None
_fork_registered = False


def current() -> "Process | None":
    """What records this process at the moment, if anything does."""
    return _current


class Process:
    """The recording of this process; of a forked child again, in a file of its own."""

    def __init__(self, folder: str, how: str) -> None:
        self.folder = folder
        self.how = how
        self.lines = Lines(folder, number_from_environment("RANK"))
        self.session: Session | None = None
        self.pid = os.getpid()
        self.closed = False
        self.starts_command = False
        """Set while `subprocess` forks: the child is about to become another program."""
        self.when_resumed: Callable[[], None] | None = None

    def begin(self, compiled_before: int = 0) -> None:
        """Become this process's recording and write its start."""
        global _current, _fork_registered
        _current = self
        if not _fork_registered:
            _fork_registered = True
            os.register_at_fork(after_in_child=_forked)
        self.lines.note("process-start", **_description(self.how), compiled_before=compiled_before)

    def end(self, error: BaseException | None) -> None:
        """Write the last word, once; `error` is what ended the program or the block."""
        global _current
        if self.closed or self.pid != os.getpid():
            return
        self.closed = True
        if self.session is not None:
            self.session.close()
        self.lines.note("process-end", **_last_word(error))
        self.lines.close()
        if _current is self:
            _current = None

    def pause(self) -> None:
        """Let a block of this process be recorded elsewhere; hooks serve one recording at a time."""
        global _current
        if self.session is not None:
            self.session.close()
        _current = None

    def resume(self) -> None:
        global _current
        _current = self
        if self.session is not None:
            self.session.start()
        elif self.when_resumed is not None:
            self.when_resumed()

    def forked(self) -> None:
        """In the child of a fork: its own file and start. Hooks came along with the memory."""
        self.lines.abandon()
        if self.starts_command:
            self.closed = True
            return
        self.pid = os.getpid()
        self.how = "fork"
        self.lines = Lines(self.folder, number_from_environment("RANK"))
        self.lines.note("process-start", **_description("fork"))
        if self.session is not None:
            self.session.forked(self.lines)


def _forked() -> None:
    if _current is not None:
        _current.forked()


def _description(how: str) -> dict[str, object]:
    return {
        "pid": os.getpid(),
        "ppid": os.getppid(),
        "argv": safe_argv(sys.orig_argv),
        "executable": text(sys.executable or ""),
        "python": sys.version.split()[0],
        "cwd": text(_working_directory()),
        "host": os.uname().nodename,
        "world_size": number_from_environment("WORLD_SIZE"),
        "local_rank": number_from_environment("LOCAL_RANK"),
        "how": how,
        "env": safe_environment(os.environ),
    }


def _last_word(error: BaseException | None) -> dict[str, object]:
    if error is None:
        return {}
    try:
        message = text(str(error))[:2000]
    except Exception as unprintable:
        message = f"<{type(unprintable).__name__} in __str__>"
    return {"uncaught": type(error).__name__, "message": message, "where": _users_line(error)}


def _users_line(error: BaseException) -> dict[str, object] | None:
    """The innermost frame of the user's, else the innermost; what no parser took is no frame."""
    found = None
    step = error.__traceback__
    while step is not None:
        code = step.tb_frame.f_code
        if found is None or is_the_users(code.co_filename) or not is_the_users(found[0]):
            found = (code.co_filename, step.tb_lineno, code.co_name)
        step = step.tb_next
    if isinstance(error, SyntaxError) and error.filename and is_the_users(error.filename):
        found = (error.filename, error.lineno or 0, "")
    if found is None:
        return None
    return {"file": text(found[0]), "line": found[1], "function": found[2]}


def _working_directory() -> str:
    try:
        return os.getcwd()
    except OSError:  # removed under the program
        return ""


def number_from_environment(name: str) -> int | None:
    value = os.environ.get(name, "")
    return int(value) if value.isdecimal() else None


def fatal_error() -> BaseException | None:
    """At exit: the exception that ended the program, if one did.

    Test runners and consoles set `sys.last_value` too, for a debugger; theirs does not begin in
    the program's main module.
    """
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    if not isinstance(error, BaseException):
        return None
    outermost = error.__traceback__
    if outermost is None or outermost.tb_frame.f_code.co_name in ("<module>", "_run_module_as_main"):
        return error
    return None


def timestamp() -> str:
    """Now, in ISO 8601 and UTC, without `datetime`."""
    now = time.time()
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1000):03d}+00:00"
