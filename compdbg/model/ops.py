"""Custom operators that do other than their schema or their fake says, as `--check-ops` saw them."""

from __future__ import annotations

from collections import defaultdict

from msgspec import Struct

from compdbg.events import OpWrong
from compdbg.store.reader import Log

OF_THE_SCHEMA = ("undeclared-write", "undeclared-alias")


class WrongOp(Struct, frozen=True, kw_only=True):
    """All that is wrong of one op's schema, or of its fake (`of_fake`), over all processes."""

    op: str
    of_fake: bool
    faults: list[OpWrong]
    """Each fault of each argument or result once, in the order of time."""
    events: list[str]


def build_wrong_ops(log: Log) -> list[WrongOp]:
    faults: dict[tuple[str, bool], dict[tuple[str, str], OpWrong]] = defaultdict(dict)
    events: dict[tuple[str, bool], list[str]] = defaultdict(list)
    for header, event in log.of(OpWrong):
        key = event.op, event.fault not in OF_THE_SCHEMA
        faults[key].setdefault((event.fault, event.subject), event)
        events[key].append(header.id)
    return [
        WrongOp(op=op, of_fake=of_fake, faults=list(found.values()), events=events[op, of_fake])
        for (op, of_fake), found in faults.items()
    ]
