"""A fixed dimension in words: what was asked, what became of it, and what to change."""

from __future__ import annotations

from compdbg.events import Where
from compdbg.findings.words import at, listed
from compdbg.model.life_lines import asked, drawn
from compdbg.model.sources import shown
from compdbg.model.symbols import Dimension


def title_of(found: list[Dimension], name: str, where: Where | None) -> str:
    first = found[0]
    names = listed(list(dict.fromkeys(each.name for each in found)))
    verb = "was" if len({each.name for each in found}) == 1 else "were"
    was = f"{names} of {name} {verb} {asked(first)} but"
    if first.fixed is not None:
        return f"{was} became {first.fixed.value} at {at(where)}{_by(first)}"
    if first.zero_one:
        return f"{was} is static: the first call had size {first.value}, which torch never makes dynamic"
    return f"{was} is static {first.value}: {first.why}"


def cause_of(
    found: list[Dimension], name: str, where: Where | None, *, failed: bool, recompiled: bool
) -> str:
    first = found[0]
    if first.fixed is not None:
        met = [shown(each) for each in first.fixed.met]
        meets = f", which meets {listed(met)}," if met else ""
        op = f"{first.fixed.op} " if first.fixed.op else "A decision on the size "
        text = f"{op}at {at(where)}{meets} holds only for {first.name} == {first.fixed.value}."
        if first.joined:
            text += f" Its way there: {drawn(first)}."
    elif first.zero_one:
        text = (
            f"When {name} was traced, {first.name} was {first.value}. torch makes no symbol for a size of 0 "
            "or 1, "
            "whatever was asked: the compiled code holds for this size alone."
        )
    else:
        text = f"{first.why[:1].upper()}{first.why[1:]}: the mark on {first.name} was ignored."
    if failed:
        text += " mark_dynamic forbids that, so the compile failed with ConstraintViolationError."
    elif recompiled:
        text += " A later call had another size and was compiled again."
    elif first.fixed is not None or first.why:
        text += " Every other size is compiled again, or served wrongly where guards are dropped."
    return text


def suggestion_for(first: Dimension) -> str:
    if first.zero_one:
        return (
            f"Warm up with a size of at least 2 along {first.name}, or mark it with "
            "torch._dynamo.decorators.mark_unbacked where the code does not depend on it."
        )
    if first.why:
        return (
            "Pass the tensor as an argument, or set torch._dynamo.config.force_parameter_static_shapes / "
            "force_nn_module_property_static_shapes = False."
        )
    assert first.fixed is not None
    met = [shown(each).partition(" (")[0] for each in first.fixed.met]
    if met:
        return (
            f"Make {listed(met)} follow {first.name}: slice it to the size at hand "
            f"({met[0]}[: {first.tensor}.size({first.dim})]), build it from that size, or mark its "
            "dimension dynamic "
            "too. If the size never varies, drop the mark."
        )
    return (
        f"Do not compare, loop over or convert {first.name} to an int in compiled code (`==`, range(), "
        "int(), a view "
        "of fixed size); or drop the mark if the size never varies."
    )


def _by(first: Dimension) -> str:
    assert first.fixed is not None
    met = [shown(each) for each in first.fixed.met]
    if first.fixed.op and met:
        return f": {first.fixed.op} with {listed(met)}"
    return f": {first.fixed.op}" if first.fixed.op else ""
