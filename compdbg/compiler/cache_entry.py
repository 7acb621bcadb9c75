"""One entry of the cache on disk: a file that is whole and ours, or is not used.

A header line of JSON says what the entry is, with its factors in the clear; sections of bytes
follow. The header names each section's size and hash. Files appear by renaming, so that no reader
ever sees half of one; what a killed process left behind is removed by the next writer.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

MAGIC = b"compdbg cache 1\n"
_PARTIAL = ".partial"


class Unusable(Exception):
    """An entry that must not be used; the message says why. `result` is what it is called."""

    def __init__(self, result: str, reason: str) -> None:
        super().__init__(reason)
        self.result = result


class Entry(Struct, frozen=True, kw_only=True):
    """What an entry holds. `about` is plain data: the record of the compile, conditions of use."""

    key: str
    factors: dict[str, str]
    about: dict[str, Any] = {}
    sections: dict[str, bytes] = {}
    made: float = 0.0
    run: str = ""
    """Which recorded run made it; nothing where none was recorded."""


def digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def to_bytes(entry: Entry) -> bytes:
    header = {
        "key": entry.key,
        "made": entry.made or time.time(),
        "by": os.getpid(),
        "run": entry.run,
        "factors": entry.factors,
        "about": entry.about,
        "sections": [[name, len(data), digest(data)] for name, data in entry.sections.items()],
    }
    line = json.dumps(header).encode()
    return b"".join([MAGIC, digest(line).encode(), b" ", line, b"\n", *entry.sections.values()])


def from_bytes(data: bytes, key: str) -> Entry:
    """The entry in a file's bytes; raises Unusable unless it is whole, of this version, and for `key`."""
    header, at = _header(data)
    if header["key"] != key:
        raise Unusable("stale", f"an entry for the key {header['key']}, under another name")
    sections: dict[str, bytes] = {}
    for name, size, wanted in header["sections"]:
        part = data[at : at + size]
        if len(part) != size:
            raise Unusable("corrupt", f"half written: {name} has {len(part)} of {size} bytes")
        if digest(part) != wanted:
            raise Unusable("corrupt", f"{name} does not match its checksum")
        sections[name] = part
        at += size
    return Entry(
        key=key,
        factors=header["factors"],
        about=header["about"],
        sections=sections,
        made=header["made"],
        run=header.get("run", ""),
    )


def _header(data: bytes) -> tuple[dict[str, Any], int]:
    """The header, and where the sections begin."""
    if not data.startswith(MAGIC):
        raise Unusable("corrupt", "no entry of this version of the cache" if data else "an empty file")
    end = data.find(b"\n", len(MAGIC))
    if end < 0:
        raise Unusable("corrupt", "half written: the header has no end")
    checksum, _, line = data[len(MAGIC) : end].partition(b" ")
    if checksum.decode("ascii", "replace") != digest(line):
        raise Unusable("corrupt", "the header does not match its checksum")
    return json.loads(line), end + 1


def read_header(path: Path) -> dict[str, Any]:
    """An entry's header alone, without its sections; raises Unusable."""
    try:
        with path.open("rb") as file:
            head = file.readline() + file.readline()
    except OSError as error:
        raise Unusable("corrupt", f"can't be read: {error.strerror}") from None
    return _header(head)[0]


def read_about(path: Path) -> Entry | None:
    """An entry without its sections, from its first line only; None if that can't be read."""
    try:
        with path.open("rb") as file:
            if file.readline() != MAGIC:
                return None
            header = json.loads(file.readline().partition(b" ")[2])
            return Entry(
                key=header["key"], factors=header["factors"], made=header["made"], run=header.get("run", "")
            )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_atomically(path: Path, data: bytes) -> None:
    """Put a file in place whole, replacing any; raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}{_PARTIAL}")
    try:
        partial.write_bytes(data)
        partial.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise


def remove_leftovers(folder: Path) -> None:
    """Delete partial files of processes that are gone."""
    with contextlib.suppress(OSError):
        for partial in folder.glob(f".*{_PARTIAL}"):
            pid = partial.name.removesuffix(_PARTIAL).rsplit(".", 2)[-2]
            if not (pid.isdecimal() and _lives(int(pid))):
                partial.unlink(missing_ok=True)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def key_of(factors: Mapping[str, str]) -> str:
    """The key of a set of factors. `what` only says for what an entry was made first."""
    return digest(json.dumps(sorted(item for item in factors.items() if item[0] != "what")).encode())
