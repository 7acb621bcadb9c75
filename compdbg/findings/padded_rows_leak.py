"""`padded-rows-leak`: rows that padding added reach a result, or memory that lives on."""

from __future__ import annotations

from collections.abc import Iterator

from compdbg.findings.base import Cost, Finding
from compdbg.findings.words import at, counted, listed
from compdbg.model.captures import Leak
from compdbg.model.run import Run


def padded_rows_leak(run: Run) -> Iterator[Finding]:
    """One finding an operator that lets them out: what else it changes is its effect."""
    for leak in run.leaks:
        first, changed = leak.first, listed(leak.what)
        by = f" through `{first.op}`" if first.op else ""
        yield Finding(
            code="padded-rows-leak",
            severity="error",
            title=f"rows that padding adds change {changed} of {leak.graph}{by}",
            cause=(
                f"A call with {counted(first.size, 'row')}, padded to {first.padded_to}, was replayed "
                "twice with other values in the added rows: "
                f"{counted(first.elements, 'element')} of {first.what} differ{_by(leak)}. {_why(leak)}"
            ),
            suggestion=_advice(leak),
            where=first.op_where or first.where,
            evidence=leak.events,
            explains=[
                *leak.events,
                *(c.event for c in run.comparisons if c.graph == leak.graph and c.apart_equal and c.padded),
            ],
            cost=Cost(results="wrong"),
            data={
                "graph": leak.graph,
                "what": first.what,
                "changed": leak.what,
                "op": first.op or None,
                "node": first.node or None,
                "piece": first.piece or None,
                "size": first.size,
                "padded_to": first.padded_to,
                "elements": first.elements,
                "max_abs": leak.max_abs,
                "sizes": [list(pair) for pair in leak.sizes],
            },
            subject=f"{leak.graph} {first.what}",
        )


def _into_memory(leak: Leak) -> bool:
    return not leak.first.what.startswith("output ")


def _by(leak: Leak) -> str:
    return "" if leak.max_abs is None else f", by up to {leak.max_abs:.3g}"


def _why(leak: Leak) -> str:
    first = leak.first
    if first.told == "compiled":
        return (
            "The graph's operators, run one by one by eager, mix no rows: it is what was compiled of them, "
            "or an operator that reads how it is served, that does."
        )
    if first.op:
        place = f"`{first.op}` ({first.node} in {first.piece}, at {at(first.op_where)})"
        if first.op_writes:
            return f"{place} writes added rows to it, where other requests' values may be."
        return (
            f"{place} is the first operator to mix rows: run one by one, the true rows of its inputs are the "
            "same whatever is in the added rows, and those of its result are not."
        )
    if _into_memory(leak):
        return "Added rows are written to it, where other requests' values may be."
    return "An operator mixes rows of the batch, such as a mean, a sum or a softmax over it."


def _advice(leak: Leak) -> str:
    first = leak.first
    if first.told == "compiled":
        return (
            "Run it with `--compare eager` and -cc.backend=eager: where nothing leaks then, a kernel or a "
            "pass lets rows out."
        )
    if first.op_writes or (_into_memory(leak) and not first.op):
        return (
            "Give added rows a slot that nobody reads (the metadata's `pad_to`), or let the operator take "
            "the number of true rows from the forward context (`current().true_size`)."
        )
    before = f"before `{first.op}`" if first.op else "before rows are mixed"
    return (
        f"Mask the added rows {before}, put the operator into splitting_ops and let it look at the true "
        "number of rows (`current().true_size`), or capture the exact sizes."
    )
