"""Fusions that the configuration enables and that never ran: who switched them off, or why."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from msgspec import Struct

from compdbg.events import (
    CacheLookup,
    FrameEnd,
    FusionCalled,
    FusionCompile,
    FusionEnabled,
    PassRun,
    PatternRegistered,
    Where,
)
from compdbg.events.graphs import NO_LOSS
from compdbg.store.reader import Log, Record


class Idle(Struct, frozen=True, kw_only=True):
    """A fusion that did not run, for one compile or at all. `outcome`: `not-run`, `cached`."""

    name: str
    aliases: list[str]
    outcome: str
    why: str
    advice: str = ""
    graph: str | None = None
    where: Where | None = None
    events: list[str] = []
    process: str = ""
    rank: int | None = None
    alarming: bool = False
    """Enabled without doubt, and nothing but what `why` says kept it from running."""


class _Subject(NamedTuple):
    """A fusion behind a configured callable: a pattern-matcher pass that it holds, or itself."""

    name: str
    aliases: list[str]
    ran: bool
    where: Where | None


_READ = (FusionCompile, CacheLookup, FrameEnd, FusionCalled, FusionEnabled, PatternRegistered, PassRun)


class _Compile(NamedTuple):
    """One graph given to a backend, and what was recorded of its compile."""

    record: Record
    event: FusionCompile
    position: int
    cached: CacheLookup | None
    failed: bool


def build_idle(log: Log, applied: dict[tuple[str, str], str]) -> list[Idle]:
    """`applied`: the name of each pass that ran, by process and pass id."""
    by_process: dict[str, list[Record]] = defaultdict(list)
    for record in log.among(_READ):
        if not isinstance(record.event, PassRun) or _is_managed(record.event):
            by_process[record.header.process].append(record)
    found: list[Idle] = []
    for process, records in by_process.items():
        names = {pass_id: name for (p, pass_id), name in applied.items() if p == process}
        found += _Process(process, records, names).idle()
    return found


def _is_managed(event: PassRun) -> bool:
    """A pass that a manager of custom passes ran. Those of Inductor are many, and tell nothing here."""
    return event.custom and event.slot is None


class _Process:
    """Reads one process's events in their order."""

    def __init__(self, process: str, records: list[Record], applied: dict[str, str]) -> None:
        self.process = process
        self.rank = records[0].header.rank
        self.applied = applied
        self.records = records
        self.by_compile: dict[str | None, list[tuple[int, object]]] = defaultdict(list)
        for i, r in enumerate(records):
            if isinstance(r.event, (FusionCompile, CacheLookup, FrameEnd)):
                self.by_compile[r.event.compile_id].append((i, r.event))
        self.called = [r.event for r in records if isinstance(r.event, FusionCalled)]
        self.compiles = [
            self._compile(i, r, r.event) for i, r in enumerate(records) if isinstance(r.event, FusionCompile)
        ]

    def idle(self) -> list[Idle]:
        by_key: dict[str, list[tuple[int, Record, FusionEnabled]]] = defaultdict(list)
        for position, record in enumerate(self.records):
            if isinstance(record.event, FusionEnabled):
                by_key[record.event.key].append((position, record, record.event))
        found: dict[str, list[Idle]] = {}
        running: set[str] = set()
        for enabled in by_key.values():
            for subject in self._subjects([event for _, _, event in enabled]):
                idle = list(self._judge(subject, enabled))
                running |= {subject.name} if subject.ran else set()
                found.setdefault(subject.name, idle)
        told = [
            i for name, idle in found.items() for i in idle if i.outcome == "cached" or name not in running
        ]
        return [*told, *self._registered_in_torchs(), *self._refused_by_manager()]

    def _compile(self, position: int, record: Record, event: FusionCompile) -> _Compile:
        cached, failed = None, False
        for later, happened in self.by_compile[event.compile_id]:
            if later <= position:
                continue
            if isinstance(happened, FusionCompile):
                break
            if isinstance(happened, CacheLookup) and happened.result == "hit":
                cached = happened
            if isinstance(happened, FrameEnd):
                failed = happened.result not in ("compiled", "?")
        return _Compile(record, event, position, cached, failed)

    def _subjects(self, events: list[FusionEnabled]) -> Iterator[_Subject]:
        first = next((event for event in events if event.by_user), events[0])
        called = any(c.key == first.key and c.disabled_by is None for c in self.called)
        linked = {each.pass_id: each for event in events for each in event.passes}
        for pass_id, each in linked.items():
            name = self.applied.get(pass_id)
            yield _Subject(name or each.name, each.aliases, name is not None, first.where or each.where)
        if not linked:
            yield _Subject(first.name, [], called, first.where)

    def _judge(self, subject: _Subject, enabled: list[tuple[int, Record, FusionEnabled]]) -> Iterator[Idle]:
        key, first = enabled[0][2].key, enabled[0][2]
        for_compile = {event.compile_id for _, _, event in enabled if event.compile_id is not None}
        mine = [c for c in self.compiles if key in c.event.enabled or c.event.compile_id in for_compile]
        cached = [c for c in mine if c.cached is not None]
        yield from (self._from_cache(subject, c) for c in cached)
        called = [c for c in self.called if c.key == key]
        if subject.ran or cached:
            return
        evidence = [record.id for _, record, _ in enabled][:3]
        if any(c.disabled_by is None for c in called):
            why = f"{first.name} ran, and did not apply it"
            yield self._idle(subject, why, "", evidence, alarming=False)
        elif called:
            why = f"{called[0].disabled_by} switches {first.slot} off"
            yield self._idle(subject, why, "Take it off that list.", evidence)
        elif mine:
            open_ = [c for c in mine if not c.failed and not c.event.elsewhere]
            yield from (self._not_reached(subject, first, c, evidence) for c in open_[:1])
        elif any(event.by_user for _, _, event in enabled):
            yield from self._not_in_effect(subject, first, enabled[0][0], evidence)

    def _from_cache(self, subject: _Subject, compiled: _Compile) -> Idle:
        lookup = compiled.cached
        assert lookup is not None
        layer = {"fx": "the FX-graph cache", "aot": "the AOT-autograd cache"}.get(lookup.layer, "a cache")
        why = f"not observed: compile {compiled.event.compile_id} was served from {layer}, so no pass ran"
        return self._idle(
            subject,
            why,
            "",
            [compiled.record.id],
            outcome="cached",
            graph=compiled.event.compile_id,
            alarming=False,
        )

    def _not_reached(
        self, subject: _Subject, first: FusionEnabled, compiled: _Compile, evidence: list[str]
    ) -> Idle:
        event = compiled.event
        evidence = [*evidence, compiled.record.id]
        if event.backend != "inductor":
            went = f"compile {event.compile_id} went to backend {event.backend!r}"
            why = f"{went}, and only Inductor runs {first.slot}"
            advice = 'Compile with backend="inductor", or leave the pass out of the configuration.'
        else:
            why = f"Inductor compiled {event.compile_id} without coming to {first.slot}"
            advice = "See `compdbg show passes` for what ran on that graph."
        return self._idle(subject, why, advice, evidence, graph=event.compile_id)

    def _not_in_effect(
        self, subject: _Subject, first: FusionEnabled, position: int, evidence: list[str]
    ) -> Iterator[Idle]:
        """Set by the user, and not there when anything was compiled: too early, or too late."""
        ends = [(i, r.event) for i, r in enumerate(self.records) if isinstance(r.event, FrameEnd)]
        if any(event.result == "failed" for i, event in ends if i > position):
            return
        compiled = [i for i, event in ends if event.result == "compiled"]
        after = [c for c in self.compiles if c.position > position and not c.failed]
        if after:
            why = (
                f"{first.slot} was set, but no longer when {after[0].event.compile_id} was compiled: "
                "compiling happens at the first call, not in torch.compile()"
            )
            yield self._idle(
                subject, why, "Keep the setting until the first call.", [*evidence, after[0].record.id]
            )
        elif any(i < position for i in compiled):
            why = f"{first.slot} was set after everything had been compiled"
            yield self._idle(subject, why, "Set it before the first call.", evidence)

    def _registered_in_torchs(self) -> Iterator[Idle]:
        """Patterns that the user put into passes of torch's own, with pattern matching switched off."""
        off = [c for c in self.compiles if not c.event.pattern_matcher and c.event.backend == "inductor"]
        off = [c for c in off if not c.failed and c.cached is None]
        seen: set[str] = set()
        for record in self.records:
            event = record.event
            if not off or not isinstance(event, PatternRegistered) or event.pass_id in self.applied:
                continue
            if event.pass_id not in seen:
                seen.add(event.pass_id)
                subject = _Subject(event.pass_name, [], False, event.where)
                why = f"torch._inductor.config.pattern_matcher is False, so {event.pattern} was never tried"
                yield self._idle(subject, why, "Leave pattern_matcher on.", [record.id, off[0].record.id])

    def _refused_by_manager(self) -> Iterator[Idle]:
        """Passes that their manager skipped on every graph, as for a range of sizes."""
        runs: dict[str, list[tuple[str, PassRun]]] = defaultdict(list)
        for record in self.records:
            if isinstance(record.event, PassRun):
                runs[record.event.pass_name].append((record.id, record.event))
        for name, mine in runs.items():
            if name not in self.applied.values() and all(event.disabled_by for _, event in mine):
                last = mine[-1][1]
                graphs = f" on each of {len(mine)} graphs" if len(mine) > 1 else ""
                yield self._idle(
                    _Subject(name, [], False, last.where),
                    f"skipped{graphs}: {last.disabled_by}",
                    "Compile for a range that it accepts, or switch it off.",
                    [id for id, _ in mine[:3]],
                    alarming=not all((e.disabled_by or "").startswith(NO_LOSS) for _, e in mine),
                )

    def _idle(
        self,
        subject: _Subject,
        why: str,
        advice: str,
        events: list[str],
        *,
        outcome: str = "not-run",
        graph: str | None = None,
        alarming: bool = True,
    ) -> Idle:
        return Idle(
            name=subject.name,
            aliases=subject.aliases,
            outcome=outcome,
            why=why,
            advice=advice,
            graph=graph,
            where=subject.where,
            events=events,
            process=self.process,
            rank=self.rank,
            alarming=alarming,
        )
