"""`nothing-compiled`: something was asked to be compiled and called, and ran eager: why."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from compdbg.events import Where
from compdbg.findings.base import Cost, Finding
from compdbg.findings.words import at, listed, sentence
from compdbg.model.run import Run
from compdbg.model.uncompiled import Uncompiled

_SUGGESTIONS = {
    "stance": 'Take the stance back with torch.compiler.set_stance("default") before the calls, or drop it.',
    "environment": "Unset the variable in the environment that starts the program.",
    "config": "Leave torch._dynamo.config.disable False, and TORCH_COMPILE_DISABLE unset.",
    "disable=True": "Drop disable=True if it should be compiled.",
    "disabled": "Take torch.compiler.disable off the forward, or compile a part that is not wrapped.",
    "empty": "Compile the function that does the tensor work; this one has none of its own.",
}


def nothing_compiled(run: Run) -> Iterator[Finding]:
    """One finding for each thing that keeps requests eager, with all that it keeps."""
    groups: dict[tuple[str, ...], list[Uncompiled]] = defaultdict(list)
    for each in run.uncompiled:
        shared = each.by in ("stance", "environment", "config")
        groups[(each.by, each.why) if shared else (each.by, each.why, at(each.request.where))].append(each)
    for found in groups.values():
        yield _finding(found)


def _finding(found: list[Uncompiled]) -> Finding:
    first = found[0]
    targets = list(dict.fromkeys(each.request.target for each in found))
    asked = list(dict.fromkeys(at(each.request.where) for each in found))
    return Finding(
        code="nothing-compiled",
        severity="info" if first.by == "disable=True" else "warning",
        title=f"{listed(targets)} {'was' if len(targets) == 1 else 'were'} asked to be compiled and "
        f"{'runs' if len(targets) == 1 else 'run'} eager: {first.why}"[:300],
        cause=sentence(f"torch.compile at {listed(asked)} compiled nothing: {first.why}"),
        suggestion=_SUGGESTIONS.get(first.by) or _for_skip(first.why),
        where=_where(first),
        evidence=[event for each in found for event in each.events],
        cost=Cost(results="same"),
        data={
            "by": first.by,
            "why": first.why,
            "targets": targets,
            "asked_at": [
                {"file": each.request.where.file, "line": each.request.where.line}
                for each in found
                if each.request.where is not None
            ],
        },
        subject=f"{first.by} {' '.join(targets)}",
    )


def _where(first: Uncompiled) -> Where | None:
    return first.where or first.request.where


def _for_skip(why: str) -> str:
    if "no tensor operation" in why:
        return (
            "Its first call did no tensor operation, and torch leaves such a frame alone from then on: "
            "compile "
            "the function that does the work, and warm up with a real input."
        )
    if "saw no tensor" in why:
        return "Pass the tensors as arguments, or compile the function that has them."
    if "dispatch mode" in why:
        return "Leave the torch dispatch mode (a profiler, a counter) before calling the compiled function."
    if "library code" in why:
        return (
            "Compile the module with torch.compile(module) and call what it returns, or compile the model "
            "that holds it."
        )
    return "Compile a function of your own that torch does not skip, and call that."
