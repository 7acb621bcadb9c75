"""Keys of compiled artifacts that this user's earlier runs made or found, with their components.

torch tells that a key has no entry, never why. Kept here, in a folder of our own below
`$XDG_CACHE_HOME/compdbg/cache-keys` (torch unpickles what it finds in its own), are the last few
keys of each function, so that a miss can be compared with the nearest earlier key. Small,
bounded, written atomically, safe to delete; where it can't be written, nothing is kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import re
import time
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from compdbg.events import FactorChange

PLACES = 256
"""Folders kept: one a layer, function and stage. The longest unused go first."""
KEYS = 8
"""Keys kept for each."""
SHOWN = 300
"""Characters kept of a component's text."""
GRAPH, SHOWN_OF_GRAPH = "gm", 60_000
"""The graph's component, whose first line that differs is looked for."""

THIS_PROCESS = f"{os.getpid()}-{os.urandom(4).hex()}"
_LINE = re.compile(r"\[(\w+)\] (.*)", re.DOTALL)


class KeyRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One key, and what went into it: component -> (its hash, its text)."""

    layer: str
    place: str
    key: str
    made: float
    process: str
    run: str = ""
    folder: str = ""
    factors: dict[str, tuple[str, str]] = {}
    output: str = ""
    """A digest of the code that was generated."""
    makings: dict[str, tuple[str, str]] = {}
    """What the artifact was made of and the key does not hold; see `makings`."""
    work: bytes = b""
    """What was recorded of how the artifact was made; see `artifacts`."""


class Nearest(Struct, frozen=True):
    """The earlier key that differs in the fewest components."""

    record: KeyRecord
    changes: list[FactorChange]


def home() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "compdbg" / "cache-keys"


def redacted(text: str) -> str:
    """Without the path of anyone's home."""
    own = os.path.expanduser("~")
    return text.replace(own, "~") if len(own) > 1 else text


def factors_of(lines: Iterable[str]) -> dict[str, tuple[str, str]]:
    """torch's lines `[hash] name: text`, as components by name."""
    found: dict[str, tuple[str, str]] = {}
    for line in lines:
        match = _LINE.match(line)
        if match is not None:
            name, _, text = match[2].partition(": ")
            found[name] = (match[1], text[: SHOWN_OF_GRAPH if name == GRAPH else SHOWN])
    return found


def remember(record: KeyRecord) -> None:
    """Keep a key as the newest of its place."""
    with contextlib.suppress(OSError):
        folder = _folder(record.layer, record.place)
        folder.mkdir(parents=True, exist_ok=True)
        target = folder / f"{_digest(record.key)}.z"
        partial = folder / f".{os.urandom(6).hex()}"
        partial.write_bytes(zlib.compress(msgspec.json.encode(record), 1))
        partial.replace(target)
        os.utime(folder)
        _prune(folder)


def recall(layer: str, place: str, key: str) -> KeyRecord | None:
    """What is known of this very key."""
    return _read(_folder(layer, place) / f"{_digest(key)}.z")


def nearest(
    layer: str, place: str, key: str, factors: dict[str, tuple[str, str]], folder: str
) -> Nearest | None:
    """The key of an earlier process, for the same function, that is most like this one.

    One that was stored in the cache folder that is looked into goes before those of others.
    """
    found = []
    for path in _by_age(_folder(layer, place)):
        record = _read(path)
        if record is not None and record.process != THIS_PROCESS:
            changes = [] if record.key == key else _changes(record.factors, factors)
            found.append(Nearest(record, changes))
    return min(
        found, key=lambda n: (bool(n.changes) and n.record.folder != folder, len(n.changes)), default=None
    )


def told(near: Nearest, folder: str) -> dict[str, Any]:
    """What the event of a miss says of the nearest key; `folder` is the cache's that was looked into."""
    return {
        "nearest_key": near.record.key,
        "nearest_made": near.record.made,
        "nearest_run": near.record.run,
        "nearest_folder": near.record.folder if near.record.folder != folder else "",
        "changed_factors": near.changes,
    }


def _changes(before: dict[str, tuple[str, str]], after: dict[str, tuple[str, str]]) -> list[FactorChange]:
    """What differs; the graph first, for much else follows from it."""
    found = []
    for name in [*before, *(n for n in after if n not in before)]:
        (old_hash, old), (new_hash, new) = before.get(name, ("", "")), after.get(name, ("", ""))
        if old_hash != new_hash:
            if name == GRAPH:
                old, new = _first_difference(old, new)
            found.append(FactorChange(name=name, before=old, after=new))
    return sorted(found, key=lambda change: change.name != GRAPH)


def _first_difference(old: str, new: str) -> tuple[str, str]:
    """The first line of either text that is not in the other at its place."""
    for before, after in itertools.zip_longest(old.splitlines(), new.splitlines(), fillvalue=""):
        if before != after:
            return before.strip()[:SHOWN], after.strip()[:SHOWN]
    return "", ""


def _folder(layer: str, place: str) -> Path:
    return home() / f"{layer}-{_digest(place)}"


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=10).hexdigest()


def _read(path: Path) -> KeyRecord | None:
    try:
        return msgspec.json.decode(zlib.decompress(path.read_bytes()), type=KeyRecord)
    except (OSError, zlib.error, msgspec.DecodeError):
        return None


def _by_age(folder: Path) -> list[Path]:
    """Newest first."""
    try:
        return sorted(folder.glob("*.z"), key=lambda p: -p.stat().st_mtime)
    except OSError:
        return []


def _prune(folder: Path) -> None:
    for path in _by_age(folder)[KEYS:]:
        path.unlink(missing_ok=True)
    places = sorted(home().iterdir(), key=lambda p: -p.stat().st_mtime)
    for old in places[PLACES:]:
        for path in old.iterdir():
            path.unlink(missing_ok=True)
        old.rmdir()


def new_record(
    layer: str,
    place: str,
    key: str,
    factors: dict[str, tuple[str, str]],
    run: str,
    folder: str,
    makings: dict[str, tuple[str, str]] | None = None,
) -> KeyRecord:
    return KeyRecord(
        layer=layer,
        place=place,
        key=key,
        made=time.time(),
        process=THIS_PROCESS,
        run=run,
        folder=folder,
        factors=factors,
        makings=makings or {},
    )


def with_work(record: KeyRecord, work: bytes) -> KeyRecord:
    return msgspec.structs.replace(record, work=work)


def with_output(record: KeyRecord, code: str) -> KeyRecord:
    """With a digest of the generated code, less its comments: they hold numbers of this process."""
    lines = [line for line in code.splitlines() if not line.lstrip().startswith("#")]
    return msgspec.structs.replace(record, output=_digest("\n".join(lines)))
