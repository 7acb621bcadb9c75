"""The run folder itself: its name, the pointer to the newest, and `run.json`.

Written by whoever leads the run: `compdbg run`, a `record()` block, or, where only the
environment asks for recording, the first process, before the program's first import. So this
too imports only what Python has loaded by itself.
"""

import os
import time

from compdbg.record.lines import to_json
from compdbg.record.privacy import safe_argv, text
from compdbg.record.process import timestamp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

RUNS = "compdbg-runs"
MANIFEST = "run.json"
_ROOM = 1024
"""Blanks after the first `run.json`, so that the last fits in its place on a disk that is full."""


def new_run_folder(program: str) -> str:
    """A new folder `compdbg-runs/<program>-<date>-<time>-<id>`, and the pointer `latest` to it."""
    base = os.path.join(os.getcwd(), RUNS)
    _make_home(base)
    while True:
        name = f"{_stem(program)}-{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(2).hex()}"
        try:
            os.mkdir(os.path.join(base, name))
        except FileExistsError:
            continue
        _point_latest(base, name)
        return os.path.join(base, name)


class Manifest:
    """`run.json`: what a run folder says of itself before any event is read."""

    def __init__(self, folder: str, argv: "Sequence[str]", options: "dict[str, Any]") -> None:
        from compdbg import __version__

        self.folder = folder
        self._began = time.time()
        self.fields: dict[str, Any] = {
            "schema": "1.0",
            "compdbg": __version__,
            "run": text(os.path.basename(folder)),
            "argv": safe_argv(argv),
            "started": timestamp(),
            "pid": os.getpid(),
            "host": os.uname().nodename,
            "options": options,
            "complete": False,
            "exit_status": None,
            "signal": None,
            "duration_s": None,
        }

    def write(self) -> None:
        """Write it for the first time.

        Raises:
            OSError: the folder can't be written to.
        """
        with open(self._path(), "w") as stream:
            stream.write(self._text(" " * _ROOM))

    def claim(self) -> bool:
        """Write it unless a run is there already, in which case this process is not its leader."""
        try:
            file = os.open(self._path(), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        except OSError:
            return False
        with os.fdopen(file, "w") as stream:
            stream.write(self._text(" " * _ROOM))
        return True

    def finish(self, exit_status: int | None = None, signal: int | None = None, **more: "Any") -> None:
        """Complete it with how the program ended."""
        self.fields |= {
            "complete": True,
            "exit_status": exit_status,
            "signal": signal,
            "duration_s": round(time.time() - self._began, 3),
            **more,
        }
        self._put()

    def add(self, **more: "Any") -> None:
        """Complete it further."""
        self.fields |= more
        self._put()

    def _put(self) -> None:
        content = self._text()
        partial = os.path.join(self.folder, f".{MANIFEST}")
        try:
            with open(partial, "w") as stream:
                stream.write(content)
            os.replace(partial, self._path())
        except OSError:
            self._overwrite(content)
            _remove(partial)

    def _overwrite(self, content: str) -> None:
        """In its own place, which is large enough, where there is no room for another file."""
        try:
            size = os.path.getsize(self._path())
            with open(self._path(), "r+b", buffering=0) as stream:
                stream.write(content.encode().ljust(size))
        except OSError:  # nothing more can be done for it: the program's end is what matters
            return

    def _path(self) -> str:
        return os.path.join(self.folder, MANIFEST)

    def _text(self, room: str = "") -> str:
        lines = (f"  {to_json(key)}: {to_json(value)}" for key, value in self.fields.items())
        return "{\n" + ",\n".join(lines) + "\n}" + room + "\n"


def _stem(program: str) -> str:
    """A program's name as a part of a folder's name."""
    name = os.path.basename(program.rstrip("/")).removesuffix(".py")
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in name)
    return plain.lstrip("-.")[:60] or "run"


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        return


def _make_home(base: str) -> None:
    """`compdbg-runs/`, which git ignores."""
    if os.path.isdir(base):
        return
    os.makedirs(base, exist_ok=True)
    with open(os.path.join(base, ".gitignore"), "w") as stream:
        stream.write("*\n")


def _point_latest(base: str, name: str) -> None:
    partial = os.path.join(base, f".latest.{name}")
    try:
        os.symlink(name, partial, target_is_directory=True)
        os.replace(partial, os.path.join(base, "latest"))
    except OSError:  # a file system without links: the newest is then found by its date
        return


def new_sibling(folder: str) -> str:
    """A new folder beside one that is taken: `<folder>-<date>-<time>-<id>`."""
    name = f"{folder}-{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(2).hex()}"
    os.makedirs(name)
    return name


def has_ended(folder: str) -> bool:
    """Whether the run in a folder is over: its end is written, or who was to write it is gone from here."""
    try:
        with open(os.path.join(folder, MANIFEST)) as file:
            entries = [line.strip().rstrip(",").partition(": ") for line in file]
    except (OSError, ValueError):
        return False
    fields = {key: value for key, _, value in entries}
    if fields.get('"complete"') == "true":
        return True
    pid = fields.get('"pid"', "")
    if fields.get('"host"') != to_json(os.uname().nodename) or not pid.isdecimal():
        return False
    try:
        os.kill(int(pid), 0)
    except PermissionError:
        return False
    except OSError:
        return True
    return False


def clear_run(folder: str) -> None:
    """Remove an earlier run from a folder, and nothing that is not of a run.

    Raises:
        OSError: something can't be removed.
    """
    for base, pattern in ((folder, _is_ours), (os.path.join(folder, "payloads"), _is_payload)):
        for name in os.listdir(base) if os.path.isdir(base) else ():
            if pattern(name):
                os.unlink(os.path.join(base, name))


def _is_ours(name: str) -> bool:
    return name in (MANIFEST, f".{MANIFEST}") or name.endswith(".jsonl") or ".lost-" in name


def _is_payload(name: str) -> bool:
    return name.endswith(".txt") and all(c in "0123456789abcdef" for c in name.removesuffix(".txt"))
