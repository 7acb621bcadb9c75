"""`pieces-not-shared`: pieces that are equal but for a constant, compiled as often as it has values."""

from __future__ import annotations

from collections.abc import Iterator

from compdbg.events import Apart
from compdbg.findings.base import Cost, Finding
from compdbg.findings.words import at, counted, listed, trend
from compdbg.model.run import Run
from compdbg.model.splits import NearTwins


def pieces_not_shared(run: Run) -> Iterator[Finding]:
    for twins in run.near_twins:
        constant = _constant(twins)
        if constant is None:
            continue
        times = len(twins.others) + 1
        values = list(dict.fromkeys([constant.there, *(v for v in _values(twins, constant) if v)]))
        what = f"{constant.argument} of {constant.op}"
        seconds = sum(piece.compile_ms for piece in twins.others) / 1e3
        yield Finding(
            code="pieces-not-shared",
            severity="warning",
            title=(
                f"{counted(twins.members, 'piece')} of {twins.graph} would be one but for {what} "
                f"({trend(values, 5)}): compiled {times} times instead of once"
            ),
            cause=(
                f"{listed([p.piece for p in (twins.first, *twins.others)])} have the same operators over "
                "the same "
                f"kinds of inputs; {what} at {at(constant.where)} is {trend(values, 5)}"
                f"{_further(twins)}. {_why(constant)}"
            ),
            suggestion=_advice(constant),
            where=constant.where,
            evidence=twins.events,
            cost=Cost(results="same", seconds=seconds or None),
            data={
                "graph": twins.graph,
                "pieces": [twins.first.piece, *(p.piece for p in twins.others)],
                "compiled": times,
                "constant": what,
                "op": constant.op,
                "argument": constant.argument,
                "values": values,
            },
            subject=f"{twins.first.piece} {what}",
        )


def _constant(twins: NearTwins) -> Apart | None:
    return next((apart for piece in twins.others for apart in piece.apart), None)


def _values(twins: NearTwins, constant: Apart) -> Iterator[str]:
    for piece in twins.others:
        same = (a for a in piece.apart if (a.op, a.argument) == (constant.op, constant.argument))
        yield next((a.here for a in same), "")


def _further(twins: NearTwins) -> str:
    further = max(len(piece.apart) for piece in twins.others) - 1
    return f" (and {counted(further, 'more constant')} differ)" if further > 0 else ""


def _why(constant: Apart) -> str:
    if constant.here[:1] in "'\"":
        return "A text can't be an input of compiled code, so it is part of it."
    if "." in constant.here or "e" in constant.here or constant.here in ("inf", "nan"):
        return "A float is baked into compiled code."
    return "An integer that a shape, a branch or an operator depends on is baked into compiled code."


def _advice(constant: Apart) -> str:
    if constant.here[:1] in "'\"":
        return (
            "Keep the name in the splitting operator, or out of the graph: pass an index or a tensor instead."
        )
    return (
        "Pass it as a tensor of no dimensions (a registered buffer of the layer), which is an input of the "
        "piece like a weight; then one compile serves them all."
    )
