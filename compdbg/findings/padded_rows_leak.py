"""`padded-rows-leak`: rows that padding added reach a result, or memory that lives on."""

from __future__ import annotations

from collections.abc import Iterator

from compdbg.findings.base import Cost, Finding
from compdbg.findings.words import counted
from compdbg.model.captures import Leak
from compdbg.model.run import Run


def padded_rows_leak(run: Run) -> Iterator[Finding]:
    for leak in run.leaks:
        first = leak.first
        yield Finding(
            code="padded-rows-leak",
            severity="error",
            title=f"rows that padding adds change {leak.what} of {leak.graph}",
            cause=(
                f"A call with {counted(first.size, 'row')}, padded to {first.padded_to}, was replayed "
                "twice with other "
                f"values in the added rows: {counted(first.elements, 'element')} of {leak.what} "
                f"differ{_by(leak)}. "
                f"{_why(leak)}"
            ),
            suggestion=_advice(leak),
            where=first.where,
            evidence=leak.events,
            explains=[
                *leak.events,
                *(c.event for c in run.comparisons if c.graph == leak.graph and c.apart_equal and c.padded),
            ],
            cost=Cost(results="wrong"),
            data={
                "graph": leak.graph,
                "what": leak.what,
                "size": first.size,
                "padded_to": first.padded_to,
                "elements": first.elements,
                "max_abs": leak.max_abs,
                "sizes": [list(pair) for pair in leak.sizes],
            },
            subject=f"{leak.graph} {leak.what}",
        )


def _into_memory(leak: Leak) -> bool:
    return not leak.what.startswith("output ")


def _by(leak: Leak) -> str:
    return "" if leak.max_abs is None else f", by up to {leak.max_abs:.3g}"


def _why(leak: Leak) -> str:
    if _into_memory(leak):
        return "Added rows are written to it, where other requests' values may be."
    return "An operator mixes rows of the batch, such as a mean, a sum or a softmax over it."


def _advice(leak: Leak) -> str:
    if _into_memory(leak):
        return (
            "Give added rows a slot that nobody reads (the metadata's `pad_to`), or let the operator take "
            "the "
            "number of true rows from the forward context (`current().true_size`)."
        )
    return (
        "Mask the added rows before rows are mixed, put the operator into splitting_ops and let it look at "
        "the "
        "true number of rows, or capture the exact sizes."
    )
