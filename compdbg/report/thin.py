"""A run made small enough for one file: what findings rest on stays, of long rows of one kind the ends do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from compdbg.store.reader import Log, Record
from compdbg.views.base import Source
from compdbg.views.code import code

MAX_EVENTS = 100_000
MAX_CHARACTERS = 8_000_000
"""Of graphs and generated code together."""
_NAMED = 4


def thinned(source: Source, most: int = MAX_EVENTS, characters: int = MAX_CHARACTERS) -> Log:
    """The run as a report carries it. `left_out` says what is missing, and how to get it."""
    log = source.run.log
    records, left = _records(log.records, _needed(source), most)
    texts, dropped = _texts(source, characters)
    sentences = list(log.left_out)
    if left:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in left.most_common(_NAMED))
        sentences.append(
            f"{left.total():,} of {len(log.records):,} events are not in this file ({kinds}): of one "
            "kind the first and the last are kept. All are in the run's folder: compdbg show RUN events"
        )
    if dropped:
        sentences.append(
            f"The {dropped} longest of {dropped + len(texts)} texts of graphs and code are not in this file. "
            "All are in the run's folder."
        )
    return replace(log, records=records, texts=texts, left_out=sentences)


def _needed(source: Source) -> set[str]:
    """Evidence, and the events in which it happened."""
    known = source.run.log.by_id
    needed: set[str] = set()
    waiting = [id for finding in source.findings for id in finding.evidence]
    while waiting:
        id = waiting.pop()
        record = known.get(id)
        if record is None or id in needed:
            continue
        needed.add(id)
        header = record.header
        if header.parent is not None:
            waiting.append(f"{header.process}:{header.parent}")
    return needed


def _records(records: Sequence[Record], needed: set[str], most: int) -> tuple[list[Record], Counter[str]]:
    """At most `most` events, and how many of each kind were left out."""
    if len(records) <= most:
        return list(records), Counter()
    counts = Counter(record.event.kind for record in records)
    half = max(1, _level(counts.values(), most - len(needed)) // 2)
    seen: Counter[str] = Counter()
    left: Counter[str] = Counter()
    kept = []
    for record in records:
        kind = record.event.kind
        seen[kind] += 1
        if seen[kind] <= half or seen[kind] > counts[kind] - half or record.id in needed:
            kept.append(record)
        else:
            left[kind] += 1
    return kept, left


def _level(counts: Iterable[int], most: int) -> int:
    """The height at which to cut counts so that they add up to at most `most`."""
    rest, waiting = max(0, most), sorted(counts)
    while waiting:
        share = rest // len(waiting)
        if waiting[0] > share:
            return share
        rest -= waiting.pop(0)
    return rest


def _texts(source: Source, characters: int) -> tuple[dict[str, str], int]:
    """Texts that the page shows, the shortest first, and how many there was no room for."""
    made = code(source)
    named = [text.text for text in made.texts]
    named += [digest for change in made.changes for digest in (change.before, change.after) if digest]
    found = {digest: source.run.log.text(digest) for digest in dict.fromkeys(named)}
    kept: dict[str, str] = {}
    dropped = 0
    for digest, text in sorted(found.items(), key=lambda pair: len(pair[1] or "")):
        if text is None:
            continue
        characters -= len(text)
        if characters < 0:
            dropped += 1
        else:
            kept[digest] = text.encode("utf-8", "backslashreplace").decode()  # bytes that are no UTF-8
    return kept, dropped
