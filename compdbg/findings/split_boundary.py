"""`split-boundary`: what crosses from piece to piece can't be an input of compiled code."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from compdbg.events import CompileError
from compdbg.findings.base import Cost, Finding
from compdbg.findings.words import at, counted, listed
from compdbg.model.run import Run
from compdbg.model.splits import BadCrossing

_IS = {
    "size": "a torch.Size",
    "tuple": "a tuple",
    "unbacked": "made of a symbol that comes out of data",
}
_WHY = {
    "size": "Compilers of pieces take tensors and single sizes as inputs, and a torch.Size is neither.",
    "tuple": "Compilers of pieces take tensors and single sizes as inputs; a tuple has to be taken apart "
    "before.",
    "unbacked": (
        "The piece that takes it knows the symbol neither by a value nor by its origin, so its compile "
        "fails, or "
        "compiles for any size, and no capture can hold it."
    ),
}
_ADVICE = {
    "size": "Read the sizes again in the piece that uses them (`x.shape[0]` next to its use), or split "
    "elsewhere.",
    "tuple": (
        "Let the nodes that take the tuple apart (`getitem`) belong to the piece that makes it; the built-in "
        "compiler does so."
    ),
    "unbacked": (
        "Name the operator that makes it in the splitting operators along with its users, keep both in one "
        "piece, "
        "or give it a size that does not depend on data (padding, torch.where)."
    ),
}


def split_boundary(run: Run) -> Iterator[Finding]:
    groups: dict[tuple[str, ...], list[BadCrossing]] = defaultdict(list)
    for crossing in run.bad_crossings:
        groups[crossing.site, crossing.what, *crossing.value.unbacked].append(crossing)
    for crossings in groups.values():
        yield _finding(run, crossings)


def _finding(run: Run, crossings: list[BadCrossing]) -> Finding:
    first = crossings[0]
    value = first.value
    names = [crossing.value.name for crossing in crossings]
    others = f" ({counted(len(names), 'such value')}: {listed(names)})" if len(names) > 1 else ""
    failures = [event for event, error in run.frames.errors if _follows(run, error, first)]
    return Finding(
        code="split-boundary",
        severity="error",
        title=(
            f"{value.name} crosses from {first.piece} to {listed(first.taken_by, 3)} of {first.graph}: it is "
            f"{_IS.get(first.what, f'a {first.what}')}"
        ),
        cause=(
            f"{first.piece} gives {value.name} ({_form(first)}), made at {at(value.where)}, to "
            f"{listed(first.taken_by, 3)}{others}. {_WHY.get(first.what, _WHY['tuple'])}"
            + (" The compile failed after it." if failures else "")
        ),
        suggestion=_ADVICE.get(first.what, _ADVICE["tuple"]),
        where=value.where,
        evidence=list(dict.fromkeys(crossing.event for crossing in crossings)),
        explains=failures,
        cost=Cost(results="failed" if failures else None),
        data={
            "kind": first.what,
            "graph": first.graph,
            "values": names,
            "type": value.type,
            "symbols": sorted({s for crossing in crossings for s in crossing.value.unbacked}),
            "from": first.piece,
            "to": first.taken_by,
        },
        subject=f"{first.graph} {first.what} {names[0]}",
    )


def _form(crossing: BadCrossing) -> str:
    value = crossing.value
    shape = f"[{', '.join(value.shape)}]" if value.shape is not None else ""
    symbols = f" {' '.join(value.unbacked)}" if value.unbacked and not shape else ""
    return f"{value.type}{shape}{symbols}"


def _follows(run: Run, error: CompileError, crossing: BadCrossing) -> bool:
    """Whether a failed compile is that of the graph, and not of a piece that has nothing to do with it.

    Our own compiler names graphs by their model, and has one compile of each.
    """
    if crossing.splitter is not None and error.compile_id != crossing.graph:
        return False
    named = {*(error.graph or "").split(), error.op}
    pieces = {piece.piece for piece in run.pieces if piece.graph == crossing.graph}
    return not named & pieces or bool(named & {crossing.piece, *crossing.taken_by})
