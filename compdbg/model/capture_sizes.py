"""How well capture sizes fit the calls: rows that padding adds, and the sizes that would add fewest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, groupby

from msgspec import Struct

from compdbg.model.sizes import ServedSize

Cost = Callable[[int, int], int]


class Padding(Struct, frozen=True, kw_only=True):
    """The replays of one graph. `best` are as many sizes as are captured now, with the fewest added rows."""

    graph: str
    replays: int
    padded_replays: int
    rows: int
    """Rows that were replayed, added ones and all."""
    added: int
    captured: list[int]
    best: list[int]
    best_added: int
    events: list[str]

    @property
    def share(self) -> float:
        return self.added / self.rows if self.rows else 0.0


def build_padding(sizes: Sequence[ServedSize]) -> list[Padding]:
    return [_padding(graph, list(rows)) for graph, rows in groupby(sizes, lambda s: s.graph)]


def _padding(graph: str, sizes: list[ServedSize]) -> Padding:
    served = [s for s in sizes if s.replays and s.padded_to is not None and s.padded_to >= s.size]
    captured = sorted(
        {s.size for s in sizes if s.captured and s.captures} | {s.padded_to or 0 for s in served}
    )
    calls = {s.size: s.replays for s in served}
    best, best_added = fewest_added(calls, len(captured))
    return Padding(
        graph=graph,
        replays=sum(calls.values()),
        padded_replays=sum(s.replays for s in served if s.padded_to != s.size),
        rows=sum(s.replays * (s.padded_to or 0) for s in served),
        added=sum(s.replays * ((s.padded_to or 0) - s.size) for s in served),
        captured=captured,
        best=best,
        best_added=best_added,
        events=[event for s in served if s.padded_to != s.size for event in s.events],
    )


def fewest_added(calls: dict[int, int], count: int) -> tuple[list[int], int]:
    """At most `count` capture sizes for these calls (size -> number) that add fewest rows, and how many.

    Exact. A best capture size is always a size that is called, so sizes are cut into `count` runs,
    each captured at its largest. The cost of a run grows the more the longer it is (it satisfies the
    quadrangle inequality), so the best cut moves one way only, and halving finds all of them.
    """
    sizes = sorted(calls)
    if not sizes or count <= 0:
        return [], 0
    number = [0, *accumulate(calls[size] for size in sizes)]
    weight = [0, *accumulate(calls[size] * size for size in sizes)]

    def cost(start: int, end: int) -> int:
        """Rows added when sizes `start` to `end`, exclusive, run at the largest of them."""
        return sizes[end - 1] * (number[end] - number[start]) - (weight[end] - weight[start])

    best = [cost(0, end) if end else 0 for end in range(len(sizes) + 1)]
    cuts: list[list[int]] = []
    for run in range(2, min(count, len(sizes)) + 1):
        best, cut = _one_more_run(run, best, cost)
        cuts.append(cut)
    chosen, end = [sizes[-1]], len(sizes)
    for cut in reversed(cuts):
        end = cut[end]
        chosen.append(sizes[end - 1])
    return chosen[::-1], best[len(sizes)]


def _one_more_run(run: int, before: list[int], cost: Cost) -> tuple[list[int], list[int]]:
    """The least cost of the first n sizes in `run` runs, from that in one run less, and the last cuts."""
    least, cut = [0] * len(before), [0] * len(before)

    def fill(low: int, high: int, first: int, last: int) -> None:
        """The ends `low` to `high`, whose best cuts lie between `first` and `last`."""
        if low > high:
            return
        middle = (low + high) // 2
        options = range(first, min(middle - 1, last) + 1)
        cut[middle] = at = min(options, key=lambda start: before[start] + cost(start, middle))
        least[middle] = before[at] + cost(at, middle)
        fill(low, middle - 1, first, at)
        fill(middle + 1, high, at, last)

    fill(run, len(before) - 1, run - 1, len(before) - 2)
    return least, cut
