"""Whether ranks decide alike: each says what its passes matched, and reads what others said before.

Nobody waits: of two ranks, the later one sees both. What is said goes through the store that the
ranks met by; only while something records.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Mapping, Sequence

import msgspec
import torch.distributed as dist

from compdbg import probe
from compdbg.events import FusionsDiffer, PatternPass

_PREFIX = "compdbg/fusions"
_times_seen: dict[str, int] = {}


def tell_and_compare(graph: str, ops: Mapping[str, int], matches: Sequence[PatternPass]) -> None:
    """Say what was matched in a graph with these operators, and emit where another rank did otherwise.

    Ranks whose graphs differ are not compared: their decisions may.
    """
    if not (probe.active() and dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1):
        return
    with contextlib.suppress(Exception):  # a store whose owner is gone, or without these calls
        mine = {match.pass_name: match.matched for match in matches}
        for rank, theirs in _others(_place(graph, ops), mine):
            for name in sorted(mine.keys() | theirs.keys()):
                here, there = mine.get(name, 0), theirs.get(name, 0)  # off is as good as no match
                if here != there:
                    event = FusionsDiffer(
                        pass_name=name, graph=graph, matched=here, other_rank=rank, other_matched=there
                    )
                    probe.emit(event)


def _place(graph: str, ops: Mapping[str, int]) -> str:
    """Where ranks meet: the graph's name and operators, and how often those were compiled here before."""
    text = hashlib.sha256(repr(sorted(ops.items())).encode()).hexdigest()[:16]
    place = f"{_PREFIX}/{graph}/{text}"
    _times_seen[place] = _times_seen.get(place, 0) + 1
    return f"{place}/{_times_seen[place]}"


def _others(place: str, mine: dict[str, int]) -> Iterator[tuple[int, dict[str, int]]]:
    """Leave `mine` for the others, then read what they left."""
    store = dist.distributed_c10d._get_default_store()
    here = dist.get_rank()
    store.set(f"{place}/{here}", msgspec.json.encode(mine))
    for rank in range(dist.get_world_size()):
        if rank != here and store.check([f"{place}/{rank}"]):
            yield rank, msgspec.json.decode(store.get(f"{place}/{rank}"), type=dict[str, int])
