"""`padding-waste`: captures compute many rows that padding adds; other capture sizes would add fewer."""

from __future__ import annotations

from collections.abc import Iterator

from compdbg.findings.base import Cost, Finding
from compdbg.findings.words import counted, listed
from compdbg.model.capture_sizes import Padding
from compdbg.model.run import Run

_REPLAYS, _SHARE = 5, 0.1


def padding_waste(run: Run) -> Iterator[Finding]:
    for padding in run.padding:
        if padding.replays >= _REPLAYS and padding.share >= _SHARE:
            yield _finding(padding)


def _finding(padding: Padding) -> Finding:
    best_rows = padding.rows - padding.added + padding.best_added
    best_share = padding.best_added / best_rows if best_rows else 0.0
    sizes = ", ".join(map(str, padding.best))
    return Finding(
        code="padding-waste",
        severity="info",
        title=f"{padding.share:.0%} of the rows that {padding.graph} replays are padding",
        cause=(
            f"{counted(padding.padded_replays, 'replay')} of {padding.replays} had fewer rows than the "
            "capture: "
            f"{padding.added} of {padding.rows} rows were added. Captured: "
            f"{listed(_words(padding.captured), 12)}."
        ),
        suggestion=_advice(padding, sizes, best_share),
        evidence=padding.events,
        cost=Cost(results="same"),
        data={
            "graph": padding.graph,
            "share": round(padding.share, 4),
            "added": padding.added,
            "rows": padding.rows,
            "captured": padding.captured,
            "best": padding.best,
            "best_added": padding.best_added,
            "best_share": round(best_share, 4),
        },
        subject=padding.graph,
    )


def _advice(padding: Padding, sizes: str, best_share: float) -> str:
    if padding.best_added >= padding.added:
        return "The sizes fit the calls as well as this number of sizes can; more of them would waste less."
    return (
        f"cudagraph_capture_sizes=[{sizes}] would leave {best_share:.0%} ({padding.best_added} rows) for "
        "the same "
        f"calls, with {'no more' if len(padding.best) == len(padding.captured) else 'fewer'} captures."
    )


def _words(sizes: list[int]) -> list[str]:
    return [str(size) for size in sizes]
