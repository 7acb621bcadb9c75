"""What Dynamo runs in frames' places, as whoever opens the report can read it: decompiled, here and now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from compdbg.events import FrameCode
from compdbg.store.reader import Log
from compdbg.views.bytecode import Decompiled, decompiled_all

SECONDS = 5.0
"""How long all of them together may take; of the rest the instructions are shown."""
MOST = 400
"""Frames whose code is in the report."""


def with_readable_code(log: Log) -> Log:
    """The log with Python in place of codes as they were recorded."""
    digests = list(dict.fromkeys(event.text for _, event in log.of(FrameCode)))[:MOST]
    recorded = {digest: text for digest in digests if (text := log.text(digest)) is not None}
    if not recorded:
        return log
    made = decompiled_all(list(recorded.values()), SECONDS)
    return replace(log, texts=_Texts(log, dict(zip(recorded, map(_in_full, made), strict=True))))


def _in_full(made: Decompiled) -> str:
    return f"# {made.why}\n{made.text}" if made.why else made.text


class _Texts(Mapping[str, str]):
    """Texts of a log, some of them others than it has; only looking up is supported."""

    def __init__(self, log: Log, made: dict[str, str]) -> None:
        self._log, self._made = log, made

    def __getitem__(self, digest: str) -> str:
        text = self._made[digest] if digest in self._made else self._log.text(digest)
        if text is None:
            raise KeyError(digest)
        return text

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)
