"""Appends to this process's own file: one whole line an event, in one system call.

After SIGKILL, a segfault or a full disk, every line but the last is good. A line that cannot be
written is counted, and the program goes on; the count is written as soon as writing works again,
and until then stands in the name of an empty file, which even a full disk has room for.

This runs at the start of every process, before the program's first import. It imports nothing
that Python has not loaded by itself: a module imported here would hide one of that name that
lies beside the user's script.
"""

import os
import sys
import time
from _json import encode_basestring_ascii as _quoted
from _thread import RLock

from compdbg.record.privacy import text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
_HIGH = range(1000, 200, -100)
"""Where our descriptor goes: above the numbers that a program expects its own files to get."""
WARNED = "COMPDBG_WARNED"
"""Set once a process has warned, so that those that it starts keep quiet."""


def to_json(value: "Any") -> str:
    """Plain values as JSON; the `json` package is not loaded for it."""
    if isinstance(value, str):
        return str(_quoted(value))
    if value is None or value is True or value is False:
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_quoted(k)}: {to_json(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(to_json, value)) + "]"
    return repr(value)


class Lines:
    """The file of one process, `<host>-<pid>-<token>[-rank<n>].jsonl`, opened on the first line.

    `warns`: a loss is told on stderr and in the folder.
    """

    def __init__(self, folder: str, rank: int | None = None, *, warns: bool = True) -> None:
        self.folder = folder
        self.warns = warns
        self.rank = rank
        self.process = f"{os.getpid()}-{os.urandom(3).hex()}"
        tag = "" if rank is None else f"-rank{rank}"
        self.name = f"{os.uname().nodename}-{self.process}{tag}"
        self.path = os.path.join(folder, f"{self.name}.jsonl")
        self.lost = 0
        run = text(os.path.basename(folder))
        self._head = to_json({"run": run, "process": self.process, "rank": rank})[:-1].encode()
        self._seq = 0
        self._file: int | None = None
        self._identity: tuple[int, int] | None = None
        self._torn = False
        self._reason = ""
        self._marker = ""
        self._lock = RLock()

    def note(self, kind: str, **fields: "Any") -> int | None:
        """Append an event given as plain values; what is written before events can be imported."""
        return self.append(to_json({"kind": kind, **fields})[1:].encode())

    def append(self, body: bytes, parent: int | None = None) -> int | None:
        """Append one event, `body` being its JSON less the opening brace; its `seq`, or None if lost."""
        try:
            with self._lock:
                if self.lost:
                    self._confess()
                return self._put(body, parent)
        except OSError as error:
            self.lose(error)
            return None

    def lose(self, error: Exception) -> None:
        """One event could not be written: count it, and warn once."""
        self.lost += 1
        if str(self.lost).strip("0") == "1":  # 1, 10, 100, ...
            self._mark()
        self._reason = text(str(error))
        if self.warns:
            warn(f"recording is incomplete: {error}")

    def close(self) -> None:
        """Give the descriptor back; a line after this opens the file anew."""
        with self._lock:
            if self.lost:
                self._mark()
            self.abandon()

    def abandon(self) -> None:
        """Close the descriptor and no more: in a forked child the lock may be held for ever."""
        if self._owned():
            assert self._file is not None
            os.close(self._file)
        self._file = None

    def _put(self, body: bytes, parent: int | None) -> int:
        self._seq += 1
        seq = self._seq
        above = b"null" if parent is None else b"%d" % parent
        line = b'%b, "seq": %d, "time": %.6f, "parent": %b, %b\n' % (
            self._head,
            seq,
            time.time(),
            above,
            body,
        )
        file = self._open()
        if self._torn:
            line = b"\n" + line
        self._torn = True
        written = os.write(file, line)
        if written != len(line):
            raise OSError(28, "no space left for a whole line")
        self._torn = False
        return seq

    def _open(self) -> int:
        if self._owned():
            assert self._file is not None
            return self._file
        file = _raised(os.open(self.path, _FLAGS, 0o644))
        stat = os.fstat(file)
        self._file, self._identity = file, (stat.st_dev, stat.st_ino)
        return file

    def _owned(self) -> bool:
        """Whether the descriptor is still our file: a program may close all it finds, and reuse them."""
        if self._file is None:
            return False
        try:
            stat = os.fstat(self._file)
        except OSError:
            return False
        return (stat.st_dev, stat.st_ino) == self._identity

    def _confess(self) -> None:
        """Say in the log how many events were lost before; raises OSError while writing fails."""
        fields = {"kind": "events-lost", "count": self.lost, "reason": self._reason}
        self._put(to_json(fields)[1:].encode(), None)
        self.lost = 0
        self._mark()

    def _mark(self) -> None:
        """Keep `<name>.lost-<count>`, an empty file, in step with the count."""
        if not self.warns:
            return
        marker = os.path.join(self.folder, f"{self.name}.lost-{self.lost}") if self.lost else ""
        try:
            if marker and self._marker:
                os.rename(self._marker, marker)
            elif marker:
                os.close(os.open(marker, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))
            elif self._marker:
                os.unlink(self._marker)
        except OSError:
            return
        self._marker = marker


def _raised(file: int) -> int:
    """The same open file under a high number that is free."""
    for number in _HIGH:
        try:
            os.fstat(number)
        except OSError:
            try:
                os.dup2(file, number, inheritable=False)
            except OSError:
                continue
            os.close(file)
            return number
    return file


def warn(message: str) -> None:
    """One line on stderr, once in a process and in those that it starts."""
    if WARNED in os.environ:
        return
    os.environ[WARNED] = "1"
    try:
        stream = sys.__stderr__
        if stream is not None:
            stream.write(f"compdbg: {message}\n")
            stream.flush()
    except Exception:  # a closed or full stderr is no reason to disturb the program
        return
