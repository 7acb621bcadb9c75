"""`op-schema-wrong`: a custom op writes where it does not say so, or its fake is not like it."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from compdbg.events import OpWrong
from compdbg.findings.base import Cost, Finding
from compdbg.findings.words import at, listed
from compdbg.model.numerics import Comparison
from compdbg.model.ops import WrongOp
from compdbg.model.run import Run


def op_schema_wrong(run: Run) -> Iterator[Finding]:
    for wrong in run.wrong_ops:
        finding = _fake(wrong) if wrong.of_fake else _schema(wrong)
        differing = _differing(run, wrong)
        if differing:
            graphs = listed(list(dict.fromkeys(each.graph for each in differing)))
            finding = msgspec.structs.replace(
                finding,
                cause=f"{finding.cause} Graph {graphs} calls it and gave other results than in eager.",
                evidence=[*finding.evidence, *(each.event for each in differing)],
            )
        yield finding


def _differing(run: Run, wrong: WrongOp) -> list[Comparison]:
    """Compiled graphs with this op that gave other results than eager: its effect."""
    name = wrong.op.partition(".")[0]
    return [each for each in run.comparisons if each.check == "differs" and name in each.custom_ops]


def _schema(wrong: WrongOp) -> Finding:
    first = wrong.faults[0]
    written = [f for f in wrong.faults if f.fault == "undeclared-write"]
    aliased = [f for f in wrong.faults if f.fault == "undeclared-alias"]
    said = [_written(written)] if written else []
    said += [_aliased(aliased)] if aliased else []
    names = listed([f"`{f.subject}`" for f in written])
    return Finding(
        code="op-schema-wrong",
        severity="error",
        title=f"{wrong.op} {' and '.join(said)}, and does not say so",
        cause=(
            f"The schema is {first.schema}. At call {first.call}, from {at(first.where)} with "
            f"{first.inputs}, {_happened(wrong.faults)}. A compiler that does not know of it "
            "orders, reuses and drops as if that memory were left alone."
        ),
        suggestion=(
            f"Declare it: mutates_args=({_arguments(written)},), or "
            f"`Tensor(a!)` for {names} in the schema of a Library; or write to a copy."
            if written
            else "Return a copy: `.clone()` of what is returned now."
        ),
        where=first.kernel or first.where,
        evidence=wrong.events,
        explains=wrong.events,
        cost=Cost(results="wrong"),
        data=_data(wrong),
        subject=f"{wrong.op} schema",
    )


def _fake(wrong: WrongOp) -> Finding:
    first = wrong.faults[0]
    faults = listed([_differs(f) for f in wrong.faults])
    return Finding(
        code="op-schema-wrong",
        severity="error",
        title=f"the fake of {wrong.op} is not like the op: {faults}",
        cause=(
            f"At call {first.call}, from {at(first.where)} with {first.inputs}, the op gave other results "
            f"than its fake promises: {faults}. Compiled code is made for what the fake promises, and reads "
            "the op's memory by it."
        ),
        suggestion=(
            f"Let the fake at {at(first.fake or first.kernel)} give "
            f"{listed([f'{f.subject} {_as_seen(f)}' for f in wrong.faults])}, or let the op give what "
            "the fake says. torch.library.opcheck tries both on inputs that you choose."
        ),
        where=first.fake or first.kernel or first.where,
        evidence=wrong.events,
        explains=wrong.events,
        cost=Cost(results="wrong"),
        data=_data(wrong),
        subject=f"{wrong.op} fake",
    )


def _written(faults: list[OpWrong]) -> str:
    return f"writes to {listed([f'`{f.subject}`' for f in faults])}"


def _arguments(faults: list[OpWrong]) -> str:
    return ", ".join(repr(f.subject.partition("[")[0]) for f in faults)


def _aliased(faults: list[OpWrong]) -> str:
    return f"returns memory of {listed([f'`{f.subject}`' for f in faults])}"


def _happened(faults: list[OpWrong]) -> str:
    return listed(
        [
            f"`{f.subject}` was {f.seen}" if f.fault == "undeclared-write" else f"{f.seen} `{f.subject}`"
            for f in faults
        ]
    )


def _differs(fault: OpWrong) -> str:
    """`the result has dtype float32, the fake says float64`."""
    if fault.fault in ("outputs", "aliasing"):
        return f"{fault.subject}: {fault.seen}, where the fake says {fault.declared}"
    return f"{fault.subject} has {fault.fault} {fault.seen}, where the fake says {fault.declared}"


def _as_seen(fault: OpWrong) -> str:
    return fault.seen if fault.fault in ("outputs", "aliasing") else f"with {fault.fault} {fault.seen}"


def _data(wrong: WrongOp) -> dict[str, object]:
    return {
        "op": wrong.op,
        "of": "fake" if wrong.of_fake else "schema",
        "faults": [
            {"fault": f.fault, "subject": f.subject, "declared": f.declared, "seen": f.seen, "call": f.call}
            for f in wrong.faults
        ],
    }
