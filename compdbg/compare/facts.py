"""A run told as facts: a view, a name that is stable across runs, and a text to compare."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import PurePath

from msgspec import Struct

from compdbg.compare.names import Names, Script, plain
from compdbg.events.guards import LOADED
from compdbg.model.fusion_rows import FusionRow, stopped
from compdbg.model.run import Run
from compdbg.store.ranks import only_rank, ranks_of


class Fact(Struct, frozen=True):
    """`weak`: not told by every run that has it, so that its absence says nothing.

    `frame`: only as Dynamo traced it; of a run that loaded the frame compiled, its absence says nothing.
    """

    view: str
    key: str
    value: str
    weak: bool = False
    frame: str = ""


class Facts(Struct, frozen=True):
    """By view and key: the value, as one text over ranks."""

    values: dict[tuple[str, str], str]
    weak: set[tuple[str, str]]
    frames: dict[tuple[str, str], str]
    """Of facts about a frame as it was traced, or as it was loaded, which."""
    loaded: set[str]
    """Frames that came compiled from a cache."""


def facts_of(run: Run, script: Script = ("", "")) -> Facts:
    """All facts of a run; where ranks differ, which rank has which value."""
    ranks = ranks_of(run.log)
    if len(ranks) < 2:
        return _collected({"": run}, script)
    return _collected({f"rank {rank}": Run(only_rank(run.log, rank)) for rank in ranks}, script)


def _collected(units: dict[str, Run], script: Script) -> Facts:
    seen: dict[tuple[str, str], dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    weak: set[tuple[str, str]] = set()
    frames: dict[tuple[str, str], str] = {}
    loaded: set[str] = set()
    for unit, run in units.items():
        for fact in _told(run, script):
            seen[fact.view, fact.key][unit].append(fact.value)
            if fact.weak:
                weak.add((fact.view, fact.key))
            if fact.frame:
                frames[fact.view, fact.key] = fact.frame
        loaded |= {Names(run, script).frame(e.frame) for e in run.entries if e.compile_id == LOADED}
    return Facts({key: _one(values, list(units)) for key, values in seen.items()}, weak, frames, loaded)


def _one(values: dict[str, list[str]], units: list[str]) -> str:
    """One text, of processes without ranks each value once; by rank where ranks differ."""
    texts = {unit: " | ".join(dict.fromkeys(values.get(unit, ["absent"]))) for unit in units}
    if len(set(texts.values())) == 1:
        return texts[units[0]]
    return ", ".join(f"{unit}: {text}" for unit, text in texts.items())


def _told(run: Run, script: Script) -> Iterator[Fact]:
    names = Names(run, script)
    for teller in _TELLERS:
        yield from teller(run, names)


def _summary(run: Run, names: Names) -> Iterator[Fact]:
    summary = run.summary
    told = {
        "torch": summary.torch,
        "triton": summary.triton,
        "vllm": summary.vllm,
        "python": summary.python,
        "device": summary.device,
    }
    yield from (Fact("summary", name, version) for name, version in told.items() if version)
    if summary.complete and (summary.signal or summary.exit_status is not None):
        end = f"signal {summary.signal}" if summary.signal else f"exit status {summary.exit_status}"
        yield Fact("summary", "end", end)


def _config(run: Run, names: Names) -> Iterator[Fact]:
    for setting in run.settings:
        asked = setting.requested not in (None, setting.effective)
        by = f", asked for {setting.requested}, {setting.changed_by or 'changed'}" if asked else ""
        yield Fact("config", setting.key, plain(f"{setting.effective}{by}"))


def _frames(run: Run, names: Names) -> Iterator[Fact]:
    by_frame: dict[tuple[str, str], list[str]] = defaultdict(list)
    for compiled in run.frames.compiles:
        by_frame[compiled.process, compiled.frame].append(compiled.result)
        if compiled.graph_ops is not None:
            label = names.compiled(compiled.process, compiled.compile_id)
            key = f"{label}: ops that Dynamo traced"
            yield Fact("frames", key, str(compiled.graph_ops), frame=names.frame(compiled.frame))
    for (_, frame), results in by_frame.items():
        counts = ", ".join(f"{count} {result}" for result, count in Counter(results).items())
        yield Fact("frames", names.frame(frame), counts, frame=names.frame(frame))
    for history in run.histories:
        for group in history.groups:
            axis = f" axis {group.axis}" if group.axis is not None else ""
            key = f"{names.frame(history.function)}: recompiled for {group.cause} of {group.subject}{axis}"
            yield Fact("frames", plain(key), f"{group.recompiles} times")
    breaks = Counter(
        (names.frame(event.frame), event.gb_type or plain(event.reason)[:100])
        for _, event in run.frames.breaks
        if not event.by_torch
    )
    for (frame, reason), count in breaks.items():
        yield Fact("frames", f"{frame}: graph break, {reason}", f"{count} times")


def _guards(run: Run, names: Names) -> Iterator[Fact]:
    for entry in run.entries:
        if entry.inherited:
            continue
        label = names.compiled(entry.process, entry.compile_id)
        if label == entry.compile_id:
            label = names.frame(entry.frame)
        for guard in entry.guards:
            by = f" by {guard.dropped_by}" if guard.dropped_by else ""
            state = "kept" if guard.kept else f"dropped{by}"
            key = f"{label}: {guard.type} {guard.source or plain(guard.expr)}"
            value = plain(f"{guard.expr} ({state})")
            yield Fact("guards", plain(key), value, frame=names.frame(entry.frame))
        for violation in entry.violations:
            key = f"{label}: {violation.name} was false"
            yield Fact("guards", plain(key), f"effect {violation.effect}, on {violation.violations} calls")


def _fusion(run: Run, names: Names) -> Iterator[Fact]:
    for row in run.fusion.rows:
        label = names.graph(row.process, row.graph)
        if row.custom:
            pattern = f" {row.pattern}" if row.pattern else ""
            yield Fact("fusion", f"{row.pass_}{pattern} on {label}", _outcome(row))
        elif row.matched:
            pattern = f" {row.pattern}" if row.pattern else ""
            yield Fact("fusion", f"{row.pass_}{pattern} on {label}", f"{row.matched} matches", weak=True)


def _outcome(row: FusionRow) -> str:
    """What became of a pattern; a cached one by what was recorded when its cache was filled."""
    if row.matched is None:
        return "not observed: served from a cache"
    if row.sites_left and row.near_miss is not None:
        share = f"fired at {row.matched} and " if row.matched else ""
        return f"{share}missed {row.sites_left}: {plain(stopped(row.near_miss))}"
    if row.matched:
        return f"fired at {row.matched}"
    if row.outcome in ("cached", "superseded", "no-candidate"):
        return "no match"
    return f"{row.outcome}: {plain(row.why)}"


def _splits(run: Run, names: Names) -> Iterator[Fact]:
    pieces: dict[str, list[str]] = defaultdict(list)
    for piece in run.pieces:
        graph = names.graph(piece.event.rpartition(":")[0], piece.graph)
        pieces[graph].append("unique" if piece.kind == "compiled" and not piece.shared_with else piece.kind)
        parts = [piece.kind, f"split at {piece.split_op}" if piece.split_op else ""]
        parts += [f"twin of {piece.shared_with}" if piece.shared_with else ""]
        parts += [f"no twin: {piece.differs_by}" if piece.differs_by else ""]
        yield Fact("splits", f"{graph} {piece.piece}".strip(), ", ".join(p for p in parts if p))
        if piece.ops is not None:
            yield Fact("splits", f"{graph} {piece.piece}: ops", str(piece.ops), weak=True)
    for graph, kinds in pieces.items():
        unique, splitting = kinds.count("unique"), kinds.count("splitting")
        compiled = unique + kinds.count("compiled")
        text = f"{compiled} compiled, {unique} of them unique; {splitting} splitting"
        yield Fact("splits", f"{graph}: pieces", text)


def _sizes(run: Run, names: Names) -> Iterator[Fact]:
    process = next(iter(run.log.records)).header.process if run.log.records else ""
    for size in run.sizes:
        key = f"{names.graph(process, size.graph)} size {size.size}"
        parts = ["captured" if size.captured else "not captured"]
        parts += [f"padded to {size.padded_to}" if size.padded_to else ""]
        parts += [f"compiled as {size.compiled_as}" if size.compiled_as else ""]
        parts += [plain(size.fault) if size.fault else ""]
        yield Fact("sizes", key, ", ".join(p for p in parts if p))
        calls = f"{size.replays} replays, {size.eager_calls} without a capture"
        yield Fact("sizes", f"{key}: calls", calls + (f", {size.refused} refused" if size.refused else ""))


def _cache(run: Run, names: Names) -> Iterator[Fact]:
    for lookup in run.lookups:
        key = f"{lookup_name(lookup.piece, lookup.range, lookup.process, names)} in the {lookup.layer} cache"
        yield Fact("cache", key, lookup.result)
    for problem in run.cache_problems:
        yield Fact("cache", f"{problem.layer}: {PurePath(problem.path).name}", plain(problem.reason))


def lookup_name(piece: str | None, for_range: str | None, process: str, names: Names) -> str:
    """What was looked up in a cache."""
    name = names.graph(process, piece)
    return name if not for_range or name.endswith(f" {for_range}") else f"{name} {for_range}".strip()


_TELLERS: tuple[Callable[[Run, Names], Iterable[Fact]], ...] = (
    _summary,
    _config,
    _frames,
    _guards,
    _fusion,
    _splits,
    _sizes,
    _cache,
)
