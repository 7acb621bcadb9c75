"""Reads a run that is being written: what is there, then again and again only what has come since."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from compdbg.events import UnknownEvent
from compdbg.store.files import log_files, stamp
from compdbg.store.reader import Log, Record, checked_manifest, decode_line, read_log, read_markers
from compdbg.store.sharing import Sharing


class Tail:
    """The files of a run folder and how far each has been read. Reading never waits for the writer."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._at: dict[Path, int] = {}
        self._latest: dict[Path, float] = {}
        self._known: list[tuple[float, Record]] = []
        self._damaged = 0
        self._sharing = Sharing()
        self._manifest = b""

    @property
    def length(self) -> int:
        """How many bytes have been read."""
        return sum(self._at.values())

    def read(self) -> Log:
        """The whole run as it is now.

        Raises:
            CannotRead: there is none, or it is of a newer major schema.
        """
        self.read_more()
        if not self._known:
            return read_log(self._folder)
        return self._log()

    def read_more(self) -> Log | None:
        """The whole run, if anything has come since; else None."""
        manifest = self._manifest_now()  # first: what it calls complete has all its events written
        new = [entry for path in log_files(self._folder) for entry in self._new_lines(path)]
        if not new and manifest == self._manifest:
            return None
        self._manifest = manifest
        self._known = sorted(
            [*self._known, *new], key=lambda entry: (entry[0], entry[1].header.process, entry[1].header.seq)
        )
        return self._log()

    def _new_lines(self, path: Path) -> list[tuple[float, Record]]:
        start = self._at.get(path, 0)
        found: list[tuple[float, Record]] = []
        try:
            with path.open("rb") as file:
                file.seek(start)
                content = file.read()
        except OSError:
            return []
        whole = content[: content.rfind(b"\n") + 1]
        self._at[path] = start + len(whole)
        latest = self._latest.get(path, 0.0)
        for line in whole.split(b"\n"):
            record = decode_line(line)
            if record is None:
                self._damaged += bool(line.strip())
                continue
            self._sharing.share(*record)
            latest = max(latest, record.header.time)
            found.append((latest, record))
        self._latest[path] = latest
        return found

    def _manifest_now(self) -> bytes:
        try:
            return (self._folder / "run.json").read_bytes()
        except OSError:
            return b""

    def _as_read(self) -> dict[str, Any]:
        try:
            given = json.loads(self._manifest)
        except (ValueError, RecursionError):
            return {}
        return checked_manifest(given, self._folder)

    def _log(self) -> Log:
        records = [record for _, record in self._known]
        unknown = Counter(r.event.kind for r in records if isinstance(r.event, UnknownEvent))
        cut = [p for p, at in self._at.items() if stamp(p)[0] > at]
        return Log(
            self._folder,
            self._as_read(),
            records,
            damaged=self._damaged,
            unknown=dict(unknown),
            partial=len(cut),
            lost=read_markers(self._folder),
        )
