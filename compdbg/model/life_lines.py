"""The life of a size while it was traced: what was asked of it, its symbol, and where it was fixed."""

from __future__ import annotations

from pathlib import PurePath

from msgspec import Struct

from compdbg.events import Where
from compdbg.model.sources import shown, size_name
from compdbg.model.symbols import Dimension

_ASKED = {
    "mark_dynamic": "marked dynamic (mark_dynamic)",
    "maybe_mark_dynamic": "marked dynamic (maybe_mark_dynamic)",
    "mark_unbacked": "marked unbacked (mark_unbacked)",
    "shapes spec": "given as dynamic in the shapes spec",
    "dynamic=True": "asked to be dynamic (dynamic=True)",
    "automatic": "made dynamic by torch, as it had varied",
    "static": "asked to be static",
}


class Step(Struct, frozen=True, kw_only=True):
    """One thing that happened to a size. `step`: `asked`, `symbol`, `joined`, `fixed`, `static`."""

    step: str
    text: str
    where: Where | None = None
    op: str | None = None
    node: str | None = None
    event: str


def asked(each: Dimension) -> str:
    """What was asked of it, in words."""
    return _ASKED.get(each.asked, "asked to be dynamic")


def life_line(each: Dimension) -> list[Step]:
    """From what was asked to what it is in the graph, in order."""
    first = each.events[0]
    steps = [Step(step="asked", text=asked(each), event=first)]
    if each.symbol is None:
        steps.append(Step(step="static", text=_why_static(each), event=first))
        return steps
    kind = "an unbacked symbol " if each.became == "unbacked" else ""
    steps.append(Step(step="symbol", text=f"{kind}{each.symbol}", event=first))
    for id, joined in each.joined:
        others = [size_name(source) for source in joined.others if source not in joined.sources]
        of = f" ({', '.join(others)})" if others else ""
        text = f"equal to {joined.into}{of}{_by(joined.op, joined.where)}"
        steps.append(
            Step(step="joined", text=text, where=joined.where, op=joined.op, node=joined.node, event=id)
        )
    if each.fixed is not None:
        fixed = each.fixed
        met = f", meeting {', '.join(map(shown, fixed.met))}" if fixed.met else ""
        text = f"{fixed.value}{_by(fixed.op, fixed.where)}{met}"
        steps.append(
            Step(
                step="fixed",
                text=text,
                where=fixed.where,
                op=fixed.op,
                node=fixed.node,
                event=each.events[-1],
            )
        )
    return steps


def drawn(each: Dimension) -> str:
    """`x.size(0): marked dynamic (mark_dynamic) → s77 → 8 by aten.add.Tensor at model.py:7`."""
    return f"{each.name}: {' → '.join(step.text for step in life_line(each))}"


def _why_static(each: Dimension) -> str:
    if each.zero_one:
        return f"static {each.value}: torch makes no symbol of 0 or 1"
    return f"static {each.value}" + (f": {each.why}" if each.why else "")


def _by(op: str | None, where: Where | None) -> str:
    by = f" by {op}" if op else ""
    return f"{by} at {PurePath(where.file).name}:{where.line}" if where else by
