"""How places, durations, sizes and counts are written, the same on every face."""

from __future__ import annotations

import os

from compdbg.events import Where


def place(where: Where | None) -> str:
    """`model.py:12`, relative to the current directory where that is shorter."""
    if where is None:
        return ""
    name = where.file
    if os.path.isabs(name):
        relative = os.path.relpath(name)
        name = relative if not relative.startswith("..") else os.path.basename(name)
    elif name.startswith("~/"):  # redacted
        name = os.path.basename(name)
    return f"{name}:{where.line}"


def duration(seconds: float | None) -> str:
    """`12 µs`, `3.4 ms`, `5.1 s`, `2 min 5 s`."""
    if seconds is None:
        return ""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} µs"
    if seconds < 1:
        return f"{seconds * 1e3:.3g} ms"
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{int(seconds // 60)} min {int(seconds % 60)} s"


def size(count: int | None) -> str:
    """`512 B`, `31.2 KiB`, `1.0 GiB`."""
    if count is None:
        return ""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """`1 call`, `2 calls`."""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"
