"""The sink that the probe writes to: encodes events, stores large texts once by content."""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from typing import Any

import msgspec

from compdbg.events import Event
from compdbg.record import options
from compdbg.record.lines import Lines
from compdbg.record.privacy import text as printable

_encode = msgspec.json.Encoder(enc_hook=str).encode
PAYLOADS = "payloads"


class Writer:
    """Writes the events of one process to its `Lines`. Nothing here raises."""

    def __init__(self, lines: Lines) -> None:
        self.lines = lines
        self._stored: set[str] = set()

    @property
    def run(self) -> str:
        """The name of the run."""
        return os.path.basename(self.lines.folder)

    @property
    def audit(self) -> str:
        """How dropped guards are to be audited, as `compdbg run` was told."""
        return options.current().audit

    def write(self, event: Event, parent: int | None = None) -> int | None:
        """Append one event; its `seq`, or None if it was lost."""
        try:
            body = _body(event)
        except Exception as error:
            self.lines.lose(error)
            return None
        return self.lines.append(body, parent)

    def payload(self, text: str) -> str:
        """Store `text` under its content hash, once; the hash. A text that can't be stored is lost."""
        data = text.encode("utf-8", "backslashreplace")
        digest = hashlib.blake2b(data, digest_size=16).hexdigest()
        if digest not in self._stored:
            try:
                _store(os.path.join(self.lines.folder, PAYLOADS), digest, data)
                self._stored.add(digest)
            except OSError as error:
                self.lines.lose(error)
        return digest


def _body(event: Event) -> bytes:
    try:
        return _encode(event)[1:]
    except UnicodeEncodeError:  # a file name or a string of the program that is not Unicode
        return _encode(_printable(msgspec.to_builtins(event, enc_hook=str)))[1:]


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {_printable(k): _printable(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_printable(item) for item in value]
    return value


def _store(folder: str, digest: str, data: bytes) -> None:
    target = os.path.join(folder, f"{digest}.txt")
    if os.path.exists(target):
        return
    os.makedirs(folder, exist_ok=True)
    partial = os.path.join(folder, f".{digest}.{os.getpid()}.{threading.get_ident()}")
    try:
        with open(partial, "wb") as file:
            file.write(data)
        os.replace(partial, target)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        raise
