"""The filter of events: `kind:guard rank:1 piece:3 text`; every word must be met, words of one key by any."""

from __future__ import annotations

import shlex
from dataclasses import dataclass


@dataclass(frozen=True)
class Filter:
    """What an event must be: its kind has one of `kinds` in it, its line all of `texts`."""

    kinds: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    pieces: tuple[str, ...] = ()
    words: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.kinds or self.ranks or self.pieces or self.words)

    @property
    def texts(self) -> tuple[str, ...]:
        """What its line in the log has to hold, in whatever case."""
        return (*(f"piece_{p}" if p.isdecimal() else p for p in self.pieces), *self.words)


def parse(query: str) -> Filter:
    """Read a filter; what has no known key is a word to look for. Quotes hold a phrase together."""
    try:
        words = shlex.split(query)
    except ValueError:  # a quote that is still open while typing
        words = query.split()
    keyed: dict[str, list[str]] = {"kind": [], "rank": [], "piece": [], "": []}
    for word in words:
        key, colon, value = word.partition(":")
        known = key in keyed and bool(colon) and bool(value)
        if known and key == "rank" and not value.isdecimal():
            known = False
        keyed[key if known else ""].append(value if known else word)
    return Filter(
        tuple(keyed["kind"]), tuple(int(r) for r in keyed["rank"]), tuple(keyed["piece"]), tuple(keyed[""])
    )
