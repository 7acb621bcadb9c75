"""`fusion-wrong`: what a fusion put into a graph is not like what it took out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from compdbg.events import ReplacementWrong
from compdbg.findings.base import Cost, Finding
from compdbg.findings.words import at, counted, listed
from compdbg.model.numerics import Comparison
from compdbg.model.replacements import WrongFusion
from compdbg.model.run import Run


def fusion_wrong(run: Run) -> Iterator[Finding]:
    """One finding a pattern: each layer of a model is replaced in the same wrong way."""
    for wrong in run.wrong_fusions:
        yield _finding(wrong, run.comparisons)


def _effects(wrong: WrongFusion, comparisons: Sequence[Comparison]) -> list[str]:
    """Calls of the graphs in question that gave other results than eager."""
    graphs = {name.rpartition(" ")[0] or name for name in wrong.graphs}
    differing = [each for each in comparisons if each.check == "differs"]
    return [c.event for c in differing if c.graph in graphs or f"{c.graph} {c.piece}" in graphs]


def _finding(wrong: WrongFusion, comparisons: Sequence[Comparison]) -> Finding:
    first = wrong.faults[0]
    name = f"{wrong.pass_name} ({wrong.pattern})" if wrong.pattern != wrong.pass_name else wrong.pass_name
    faults = listed([_said(fault) for fault in wrong.faults])
    return Finding(
        code="fusion-wrong",
        severity="error",
        title=f"{name} replaces by something else: {faults}",
        cause=(
            f"In {counted(len(wrong.graphs), 'graph')} ({listed(wrong.graphs, 3)}) the pattern matched "
            f"{counted(wrong.count, 'region')}, first at {first.output} from {at(first.where)}. On the same "
            f"inputs, {listed([_at_length(fault) for fault in wrong.faults])}.{_reader(wrong.faults)}"
        ),
        suggestion=_suggestion(wrong.faults),
        where=first.where or first.replacement,
        evidence=wrong.events,
        explains=[*wrong.events, *wrong.failed, *_effects(wrong, comparisons)],
        cost=Cost(results="wrong"),
        data={
            "pass": wrong.pass_name,
            "pattern": wrong.pattern,
            "graphs": wrong.graphs,
            "regions": wrong.count,
            "faults": [_data(fault) for fault in wrong.faults],
        },
        subject=f"{wrong.pass_name} {wrong.pattern}",
    )


def _suggestion(faults: list[ReplacementWrong]) -> str:
    first = faults[0]
    if first.custom:
        return f"In the replacement at {at(first.replacement)}, {listed(_advice(faults))}."
    return (
        "The pattern is torch's own: write this line in another way, or compile with "
        "torch._inductor.config.pattern_matcher = False; and report it to PyTorch with this graph."
    )


def _reader(faults: list[ReplacementWrong]) -> str:
    """Values alone are no trouble for what reads them: it computes with them."""
    alike = all(fault.fault == "values" for fault in faults)
    return "" if alike else " What reads the result was traced for the region's."


def _said(fault: ReplacementWrong) -> str:
    if fault.fault == "values":
        return "NaN for numbers" if fault.max_abs is None else f"values that differ by {fault.max_abs:.3g}"
    return f"{fault.fault} {fault.found} for {fault.wanted}"


def _at_length(fault: ReplacementWrong) -> str:
    if fault.fault != "values":
        return f"the region gives {fault.fault} {fault.wanted} and the replacement {fault.found}"
    if fault.max_abs is None or fault.max_rel is None:
        return "one of the two gives NaN or infinity where the other gives numbers"
    return (
        f"random and about {fault.scale} in size, the two differ by {fault.max_abs:.3g}, "
        f"{fault.max_rel:.3g} of the largest value"
    )


def _advice(faults: list[ReplacementWrong]) -> list[str]:
    said = {
        "dtype": "cast the result to {wanted}",
        "shape": "give the result the shape {wanted}",
        "strides": "give the result the strides {wanted} (a contiguous one is not always what was there)",
        "device": "keep the result on {wanted}",
        "values": "compare it with the pattern for constants, for a dropped input, and for memory that is "
        "read before it is written",
    }
    other = "give what the region gives"  # a fault that a later version of ours looks for
    return [said.get(fault.fault, other).format(wanted=fault.wanted) for fault in faults]


def _data(fault: ReplacementWrong) -> dict[str, object]:
    return {
        "fault": fault.fault,
        "output": fault.output,
        "wanted": fault.wanted,
        "found": fault.found,
        "max_abs": fault.max_abs,
        "max_rel": fault.max_rel,
    }
