"""How an artifact was made, kept until it is stored under its cache key, and found again on a hit.

On a hit no pass runs and nothing is matched. What the run that filled the cache saw is the only
answer then: its passes that did something, its pattern-matcher passes with their counts, the
copies that were kept and the writes that were lost.
"""

from __future__ import annotations

import zlib
from collections import defaultdict

import msgspec
from msgspec import Struct

from compdbg.events import CloneKept, CloneRemoved, EffectRemoved, PassRun, PatternPass

Noted = PassRun | PatternPass | CloneKept | EffectRemoved | CloneRemoved

GRAPHS = 64
"""Graphs for which work is kept in this process, at most."""
EVENTS = 400


class Work(Struct, frozen=True, omit_defaults=True):
    passes: list[PassRun] = []
    patterns: list[PatternPass] = []
    copies: list[CloneKept] = []
    lost: list[EffectRemoved] = []
    dropped: list[CloneRemoved] = []


_noted: dict[str, list[Noted]] = defaultdict(list)


def note(event: Noted) -> None:
    """An event that says how the graph that is being compiled was made."""
    if isinstance(event, PassRun):
        if not event.changed and not event.custom and event.disabled_by is None:
            return
        event = msgspec.structs.replace(event, before=None, after=None)
    events = _noted[event.graph]
    if len(events) < EVENTS:
        events.append(event)
    while len(_noted) > GRAPHS:
        _noted.pop(next(iter(_noted)))


def forget(graph: str) -> None:
    """A compile begins anew: what was noted for a graph of this name was another's."""
    for name in (graph, f"{graph} joint", f"{graph} backward"):
        _noted.pop(name, None)


def take(graph: str) -> bytes:
    """All that was noted for one graph (and its joint graph, with the forward's), encoded."""
    names = [graph] if graph.endswith(" backward") else [f"{graph} joint", graph]
    events = [event for name in names for event in _noted.pop(name, ())]
    if not events:
        return b""
    work = Work(
        passes=[e for e in events if isinstance(e, PassRun)],
        patterns=[e for e in events if isinstance(e, PatternPass)],
        copies=[e for e in events if isinstance(e, CloneKept)],
        lost=[e for e in events if isinstance(e, EffectRemoved)],
        dropped=[e for e in events if isinstance(e, CloneRemoved)],
    )
    return zlib.compress(msgspec.json.encode(work, enc_hook=str), 1)


def decode(data: bytes) -> Work | None:
    """What `take` gave; None for what can't be read."""
    try:
        return msgspec.json.decode(zlib.decompress(data), type=Work)
    except (zlib.error, msgspec.DecodeError):
        return None
