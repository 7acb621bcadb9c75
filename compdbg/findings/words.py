"""Small phrases that several rules use: places, counts, lists."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from compdbg.events import Where


def at(where: Where | None) -> str:
    """`model.py:12`, or `an unknown line`."""
    return "an unknown line" if where is None else f"{PurePath(where.file).name}:{where.line}"


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """`1 call`, `2 calls`."""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"


def listed(words: Sequence[str], most: int = 6) -> str:
    """`a, b and c`; of a long list the first ones, and how many more."""
    if len(words) > most:
        return f"{', '.join(words[:most])} and {len(words) - most} more"
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]])) if words else "nothing"


def trend(values: Sequence[str], most: int = 8) -> str:
    """`2, 3, 4, ... 9`: values in the order in which they were seen."""
    if len(values) <= most:
        return ", ".join(values)
    return f"{', '.join(values[: most - 2])}, … {values[-1]}"


def sentence(text: str) -> str:
    """One line that ends with a full stop, or its own question mark."""
    flat = " ".join(text.split()).rstrip(".:; ")
    return f"{flat}." if flat and not flat.endswith("?") else flat
