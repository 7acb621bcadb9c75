"""Appends events to this process's own file, one whole line each, in one system call.

After SIGKILL, a segfault or a full disk, every line but the last is good. A line that cannot be
written is counted and the program goes on; the count is written as soon as writing works again.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import threading
import time
from pathlib import Path

import msgspec

from compdbg.events import Event, EventsLost

_encode = msgspec.json.Encoder(enc_hook=str).encode
PAYLOADS = "payloads"


class Writer:
    """The sink of one process: `path` is its own file, opened for append on the first event."""

    def __init__(self, folder: Path, name: str, *, run: str, process: str, rank: int | None) -> None:
        self.folder = folder
        self.path = folder / f"{name}.jsonl"
        self.process = process
        self.lost = 0
        self._head = json.dumps({"run": run, "process": process, "rank": rank})[:-1].encode()
        self._seq = 0
        self._file: int | None = None
        self._lock = threading.RLock()
        self._stored: set[str] = set()
        self._warned = False

    def write(self, event: Event, parent: int | None = None) -> int | None:
        """Append one event; its `seq`, or None if it was lost. Never raises."""
        try:
            with self._lock:
                if self.lost:
                    self._confess()
                return self._append(event, parent)
        except (OSError, ValueError, TypeError, msgspec.EncodeError) as error:
            self._lose(error)
            return None

    def payload(self, text: str) -> str:
        """Store `text` under its content hash, once; the hash. A text that can't be stored is lost."""
        data = text.encode("utf-8", "surrogateescape")
        digest = hashlib.blake2b(data, digest_size=16).hexdigest()
        if digest in self._stored:
            return digest
        try:
            self._store(digest, data)
            self._stored.add(digest)
        except OSError as error:
            self._lose(error)
        return digest

    def close(self) -> None:
        with self._lock:
            if self._file is not None:
                os.close(self._file)
                self._file = None

    def _append(self, event: Event, parent: int | None) -> int:
        body = _encode(event)
        seq = self._seq + 1
        place = b', "seq": %d, "time": %.6f, "parent": %s, ' % (
            seq,
            time.time(),
            b"null" if parent is None else b"%d" % parent,
        )
        line = self._head + place + body[1:] + b"\n"
        if self._file is None:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            self._file = os.open(self.path, flags, 0o644)
        written = os.write(self._file, line)
        if written != len(line):
            os.write(self._file, b"\n")
            raise OSError("short write")
        self._seq = seq
        return seq

    def _store(self, digest: str, data: bytes) -> None:
        folder = self.folder / PAYLOADS
        target = folder / f"{digest}.txt"
        if target.exists():
            return
        folder.mkdir(exist_ok=True)
        partial = folder / f".{digest}.{self.process}"
        partial.write_bytes(data)
        partial.replace(target)

    def _confess(self) -> None:
        """Say in the log how many events were lost before; raises OSError while writing fails."""
        self._append(EventsLost(count=self.lost, reason="the log could not be written"), None)
        self.lost = 0

    def _lose(self, error: Exception) -> None:
        self.lost += 1
        if not self._warned:
            self._warned = True
            print(f"compdbg: recording is incomplete: {error}", file=sys.stderr)
