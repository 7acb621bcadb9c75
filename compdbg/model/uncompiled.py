"""Requests that came to nothing: asked to be compiled, called, and run eager all the same."""

from __future__ import annotations

import re
from collections import defaultdict

from msgspec import Struct

from compdbg.events import CompileRequest, Stance, Where
from compdbg.model.frames import Compile, Frames
from compdbg.store.reader import Log

DISABLED = re.compile(r"torch\.compiler\.disable\(\)")


class Uncompiled(Struct, frozen=True, kw_only=True):
    """One request of which no graph was compiled. `by` is what kept it, `why` in a sentence."""

    request: CompileRequest
    by: str
    """`stance`, `environment`, `config`, `disable=True`, `disabled`, `skipped` or `empty`."""
    why: str
    where: Where | None
    """What keeps it eager, where that is a line of the user's."""
    events: list[str]


def build_uncompiled(log: Log, frames: Frames) -> list[Uncompiled]:
    """Judge each request by what its frames came to. What failed, broke or hit a limit is not among them."""
    of_request: dict[str, list[Compile]] = defaultdict(list)
    for compiled in frames.compiles:
        of_request[compiled.request].append(compiled)
    made = {c.function for c in frames.compiles if c.result == "compiled" and c.graph_ops != 0}
    found = []
    for id, request in frames.requests.values():
        compiles = of_request.get(request.request, [])
        if request.internal or request.code in made or any(_came_to_something(c) for c in compiles):
            continue
        reason = _reason(log, frames, request, id, compiles)
        if reason is not None:
            found.append(reason)
    return found


def _came_to_something(compiled: Compile) -> bool:
    if compiled.result == "compiled":
        return compiled.graph_ops != 0
    return compiled.result in ("failed", "eager", "?")


def _reason(
    log: Log, frames: Frames, request: CompileRequest, id: str, compiles: list[Compile]
) -> Uncompiled | None:
    if request.disabled_by is not None:
        by = "disable=True" if request.disabled_by == "disable=True" else "environment"
        why = f"{request.disabled_by} makes torch.compile return what it was given"
        return Uncompiled(request=request, by=by, why=why, where=None, events=[id])
    refused = next(((rid, e) for rid, e in frames.refused if e.request == request.request), None)
    if refused is not None:
        return _by_stance(log, request, refused[1].reason, [id, refused[0]])
    return _by_frames(frames, request, id, compiles)


def _by_stance(log: Log, request: CompileRequest, reason: str, events: list[str]) -> Uncompiled:
    stance = reason.removeprefix("stance ")
    header, set_at = next(((h, e) for h, e in reversed(log.of(Stance)) if e.stance == stance), (None, None))
    where = set_at.where if set_at is not None else None
    line = f" at {where.file.rpartition('/')[2]}:{where.line}" if where is not None else ""
    effect = {
        "force_eager": "runs every compiled function eager",
        "eager_on_recompile": "compiles nothing that is not compiled already",
    }.get(stance, "kept it eager")
    return Uncompiled(
        request=request,
        by="stance",
        why=f'torch.compiler.set_stance("{stance}"){line} {effect}',
        where=where,
        events=[*events, *([header.id] if header is not None else [])],
    )


def _by_frames(
    frames: Frames, request: CompileRequest, id: str, compiles: list[Compile]
) -> Uncompiled | None:
    own = compiles
    breaks = [(bid, b) for bid, b in frames.breaks if b.request == request.request]
    disabled = [(bid, b) for bid, b in breaks if DISABLED.search(b.reason)]
    if len(disabled) < len(breaks) or not own:
        return None
    if disabled:
        return Uncompiled(
            request=request,
            by="disabled",
            why="what it runs is wrapped in torch.compiler.disable",
            where=None,
            events=[id, *(bid for bid, _ in disabled)],
        )
    skipped = min((c for c in own if c.result == "skipped"), key=_says_little, default=None)
    if skipped is None:
        reason, by = "its graph holds no operation", "empty"
    elif skipped.reason == "Dynamo tracing is disabled":
        reason, by = "torch._dynamo.config.disable is set (TORCH_COMPILE_DISABLE=1 sets it too)", "config"
    else:
        reason, by = _skip_in_words(skipped), "skipped"
    events = [id, *(event for c in own for event in c.events)]
    return Uncompiled(request=request, by=by, why=reason, where=None, events=events)


_SKIPS = (
    ("No ops traced", "its first call did no tensor operation, and torch leaves {name} alone from then on"),
    ("no tensor-related objects", "torch saw no tensor in {name} and left it alone"),
    ("torch dispatch mode", "a torch dispatch mode (a profiler, a counter) is active around the call"),
    ("Dynamo skipfiles list", "{name} is library code that torch does not compile as a frame of its own"),
)


def _skip_in_words(skipped: Compile) -> str:
    for known, words in _SKIPS:
        if known in skipped.reason:
            return words.format(name=skipped.name)
    return f"torch skipped {skipped.name}: {skipped.reason}"


def _says_little(skipped: Compile) -> bool:
    """Library frames are skipped for being that, also where another reason kept their caller eager."""
    return "skipfiles" in skipped.reason
