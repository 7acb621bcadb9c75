"""`compile-failed`: a compile that raised, by its innermost cause."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from compdbg.events import CompileError, ProcessEnd
from compdbg.findings.base import Cost, Finding
from compdbg.findings.words import at, listed, sentence
from compdbg.model.frames import name_of, place_of
from compdbg.model.run import Run

_STAGES = {
    "config": "as configured",
    "dynamo": "while Dynamo traced it",
    "aot": "in AOT autograd",
    "inductor": "in Inductor",
    "backend": "in the backend",
}


def compile_failed(run: Run) -> Iterator[Finding]:
    """One finding for each cause: the same error of the same op in many frames is one."""
    groups: dict[tuple[str, ...], list[tuple[str, CompileError]]] = defaultdict(list)
    for id, event in run.frames.errors:
        key = (
            event.stage,
            event.root_error,
            _first_line(event.root_message),
            event.op or "",
            at(event.where),
        )
        groups[key].append((id, event))
    for found in groups.values():
        yield _finding(run, found)


def _finding(run: Run, found: list[tuple[str, CompileError]]) -> Finding:
    id, error = found[0]
    header = run.log.by_id[id].header
    root = f"{error.root_error}: {_first_line(error.root_message)}"
    names = sorted({name_of(e.frame) for _, e in found if e.frame}) or ["a backward graph"]
    outcome, went_on = _outcome(run, [e for _, e in found])
    what = f"{error.op} " if error.op else ""
    direction = " of the backward" if error.direction == "backward" else ""
    raised = f"{what}raised {root}" if what else root
    title = f"compiling {listed(names)} failed {_stage(error)}{direction}: {raised}"
    if not error.frame and error.direction == "forward":
        title = f"torch.compile refused the backend: {root}"
    if error.stage == "config":
        title = f"{listed(names)} can't be compiled as configured: {_first_line(error.root_message)}"
    through = "" if error.error == error.root_error else f" torch reports it as {error.error}."
    return Finding(
        code="compile-failed",
        severity="error",
        title=title[:300],
        cause=sentence(f"At {at(error.where)}{_piece(error)}: {raised}")
        + through
        + _pattern(error)
        + f" {outcome}",
        suggestion=_suggestion(error),
        where=error.where or place_of(error.frame),
        evidence=[id for id, _ in found],
        explains=[id for id, _ in found],
        cost=Cost(results="failed" if not error.suppressed else "same"),
        data={
            "stage": error.stage,
            "direction": error.direction,
            "piece": error.graph,
            "op": error.op,
            "pattern": error.pattern,
            "backend": error.backend,
            "error": error.error,
            "root_error": error.root_error,
            "root_message": error.root_message,
            "frames": names,
            "times": len(found),
            "rank": header.rank,
            "process": header.process,
            "went_on": went_on,
            "suppressed": error.suppressed,
        },
        subject=f"{error.stage} {error.op} {error.root_error}",
    )


def _piece(error: CompileError) -> str:
    return f", in piece {error.graph}" if error.graph else ""


def _pattern(error: CompileError) -> str:
    if error.pattern is None:
        return ""
    return f" Inductor was fitting the pattern {error.pattern} to the graph there, or its replacement."


def _stage(error: CompileError) -> str:
    if error.stage == "backend" and error.backend:
        return f"in the backend {error.backend!r}"
    return _STAGES.get(error.stage, f"in {error.stage}")


def _outcome(run: Run, errors: list[CompileError]) -> tuple[str, bool | None]:
    """What the program did with it, in a sentence; whether it went on, None if the log does not say."""
    if all(error.suppressed for error in errors):
        return "torch suppressed the error (suppress_errors) and runs the frame eager.", True
    names = {name for error in errors for name in (error.error, error.root_error)}
    ended_by = [end for _, end in run.log.of(ProcessEnd) if end.uncaught in names]
    if ended_by:
        return "The program did not catch it and ended.", False
    if run.summary.complete and not run.summary.exit_status and run.summary.signal is None:
        return "The program caught the error and went on without this compile.", True
    return "It was raised to the caller.", None


def _suggestion(error: CompileError) -> str:
    text = f"{error.root_message} {error.message}"
    if "no fake impl" in text or "register_fake" in text:
        return f"Register a fake for {error.op or 'the operator'} with torch.library.register_fake."
    if error.stage == "dynamo" and "fake tensor" in text:
        op = error.op or "the operator"
        return (
            f"Run the call eager with inputs of these shapes. If it works, the fake of {op} is at fault: "
            "it must accept every input that the operator does; if not, so is the call."
        )
    if not error.frame and error.direction == "forward":
        return "Name one of torch.compiler.list_backends(), or pass a function as the backend."
    if error.stage in ("config", "backend"):
        return _what_was_chosen(error)
    if error.stage in ("inductor", "aot"):
        return _below_the_graph(error.pattern)
    return "Run the function eager with the same input; the event holds torch's full traceback."


def _what_was_chosen(error: CompileError) -> str:
    if error.stage == "backend":
        backend = error.backend or ""
        return f"Fix the backend {backend} where it raises, or compile with backend='eager' to go on."
    return (
        "Correct the value where it is set, on the command line, in the environment or in the program's "
        "CompilationConfig; `compdbg show config` has every value that was set, and by whom."
    )


def _below_the_graph(pattern: str | None) -> str:
    if pattern is None:
        return (
            "Compile with backend='aot_eager' and backend='eager' to see which stage is at fault; "
            "a custom pass or lowering named in the traceback is the first suspect."
        )
    return (
        f"Look at where {pattern} and its replacement differ from this line in shape. If it is torch's own "
        "pattern, write the line in another way, or compile with torch._inductor.config.pattern_matcher = "
        "False, and report it to PyTorch."
    )


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0][:200]
