"""One `apply` of a pass under way: each attempt of its patterns, and what became of it."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from typing import Any

import msgspec
from msgspec import Struct

from compdbg.events import MatchAttempt, NearMiss, PatternPass, ReplacementWrong, Where
from compdbg.hooks import current
from compdbg.hooks.pattern_matcher_entries import EntryInfo, is_custom, replacement_place
from compdbg.hooks.pattern_matcher_misses import (
    Near,
    Tried,
    at_first_stage,
    checked_away,
    discarded,
    examined,
    unsupported,
)
from compdbg.hooks.pattern_matcher_owner import Owner
from compdbg.hooks.pattern_matcher_passes import PassInfo
from compdbg.hooks.pattern_matcher_sites import site_of
from compdbg.hooks.replacements import Region, wants_values
from compdbg.hooks.userline import of_node, of_text
from compdbg.record.options import current as options


class Pending(Struct):
    """A loose match that torch has found, and not yet said what becomes of it."""

    tried: Tried
    match: Any


class Checking(Struct):
    """An extra check under way: the second match inside it, and an error while tracing for that."""

    tried: Tried
    second: tuple[Any, Any, Any] | None = None
    trace_error: str = ""


class Applying:
    """State of one `apply` on this thread. `traced` entries are noted one by one, others counted."""

    def __init__(self, matcher: Any, info: PassInfo, graph: Any, graph_id: int, owner: Owner) -> None:
        self.matcher = matcher
        self.info = info
        self.graph = graph
        self.graph_name = current.graph_name()
        self.graph_id = graph_id
        self.owner = owner
        self.attempted = 0
        self.attempted_by: Counter[str] = Counter()
        self.us_by: defaultdict[str, float] = defaultdict(float)
        self.attempts: list[MatchAttempt] = []
        self.pending: Pending | None = None
        self.undecided: Tried | None = None
        self.checking: Checking | None = None
        self.compared = self.values_compared = 0
        self.wrong: list[ReplacementWrong] = []
        self._regions: dict[Any, int] = {}
        self._turn: tuple[int, Any, int] = (0, None, 0)
        self._lines: dict[str, Where | None] = {}
        self._started = time.perf_counter()

    def trying(self, pattern: Any, node: Any) -> EntryInfo | None:
        """torch is about to match `pattern` at `node`; the entry, if its attempts are noted."""
        if self.checking is not None:
            return None
        entries = self.info.by_pattern.get(id(pattern))
        if not entries:
            return None
        self.settle()
        self.attempted += 1
        return entries[self._turn_of(pattern, node) % len(entries)]

    def tried(self, entry: EntryInfo | None, pattern: Any, node: Any, result: Any, seconds: float) -> None:
        """torch has matched: the first stage of an entry, or the second inside its check."""
        if self.checking is not None and self.checking.second is None:
            self.checking.second = (pattern, node, result)
        if entry is None:
            return
        self.us_by[entry.name] += seconds * 1e6
        self.attempted_by[entry.name] += 1
        tried = Tried(self.matcher, entry, pattern, node)
        if result:
            self.pending = Pending(tried, result)
        else:
            self._note(tried, "missed", *examined(at_first_stage, tried))

    def check_begins(self, match: Any) -> Checking | None:
        """torch asks the entry's check whether it wants `match`."""
        pending, self.pending = self.pending, None
        if pending is None or pending.match is not match:
            return None
        self.checking = Checking(pending.tried)
        return self.checking

    def check_ends(self, checking: Checking, check: Any, match: Any, result: Any, seconds: float) -> None:
        """What the check said. A `SymBool` is decided by torch afterwards, and not by us."""
        tried, self.checking = checking.tried, None
        self.us_by[tried.entry.name] += seconds * 1e6
        if result is True:
            self._fired(tried, match)
        elif result is False:
            second, error = checking.second, checking.trace_error
            self._note(tried, "missed", *examined(checked_away, tried, check, second, error))
        else:
            self.undecided = tried

    def applied(self, match: Any) -> None:
        """An entry is being applied: a check that gave no plain bool was decided for it."""
        tried, self.undecided = self.undecided, None
        if tried is not None:
            self._fired(tried, match)

    def replacing(self, entry: Any, match: Any) -> Region | None:
        """What an entry of the user's is about to replace; one of torch's own where values are compared."""
        kind = type(entry).__name__
        custom = self.info.custom and is_custom(entry)
        if custom and kind not in ("ReplacementPatternEntry", "GraphPatternEntry"):
            return None
        if not custom and (kind != "ReplacementPatternEntry" or not options().check_replacements):
            return None
        region = Region(match, self.graph, custom)
        if wants_values(self.info.name_of(entry), region.nodes, self._regions):
            region.try_values()
        return region

    def replaced(self, entry: Any, region: Region) -> None:
        """What stands in its place now."""
        self.compared += 1
        self.values_compared += bool(region.trials)
        for fault in region.faults():
            trace = region.traces.get(fault.node) or ""
            self.wrong.append(
                ReplacementWrong(
                    pass_id=self.info.id,
                    pass_name=self.info.names(self.owner)[0],
                    pattern=self.info.name_of(entry),
                    graph=self.graph_name,
                    graph_id=self.graph_id,
                    fault=fault.fault,
                    output=fault.output,
                    wanted=fault.wanted,
                    found=fault.found,
                    where=of_text(trace),
                    replacement=replacement_place(entry),
                    custom=region.custom,
                    max_abs=fault.max_abs,
                    max_rel=fault.max_rel,
                    scale=fault.scale,
                    compile_id=current.compile_id(),
                )
            )

    def skipped(self, node: Any) -> None:
        """torch skips an anchor for its dtype before it tries any pattern."""
        self.settle()
        for entry, pattern in self.info.entries_at(node):
            tried = Tried(self.matcher, entry, pattern, node)
            self._note(tried, "discarded", *examined(unsupported, tried))

    def settle(self) -> None:
        """What was pending when torch went on: discarded after the match, or refused by its check."""
        pending, self.pending = self.pending, None
        if pending is not None:
            self._note(pending.tried, "discarded", *examined(discarded, pending.tried, pending.match))
        undecided, self.undecided = self.undecided, None
        if undecided is not None:
            self._note(undecided, "missed", *examined(checked_away, undecided, None, None, ""))

    def as_event(self, matched: int) -> PatternPass:
        """The apply as a whole, once it has ended."""
        fired = Counter(a.pattern for a in self.attempts if a.outcome == "matched")
        name, aliases = self.info.names(self.owner)
        return PatternPass(
            pass_id=self.info.id,
            pass_name=name,
            aliases=aliases,
            graph=self.graph_name,
            graph_id=self.graph_id,
            custom=self.info.custom,
            traced=bool(self.info.traced),
            stage=self.owner.stage,
            patterns=self.info.patterns_to_tell(),
            attempted=self.attempted,
            matched=matched,
            matched_by=dict(fired),
            attempted_by=dict(self.attempted_by),
            us_by={name: round(us, 1) for name, us in self.us_by.items()},
            duration_us=round((time.perf_counter() - self._started) * 1e6, 1),
            compile_id=current.compile_id(),
        )

    def as_record(self, event: PatternPass) -> PatternPass:
        """The same with all patterns and what each left, to be kept with the artifact in a cache."""
        taken = {name for a in self.attempts if a.outcome == "matched" for name in (*a.consumed, a.anchor)}
        left = [a for a in self.attempts if a.anchor not in taken and a.is_near_without(taken)]
        return msgspec.structs.replace(
            event,
            patterns=[entry.as_event() for entry, _ in self.info.noted_patterns()],
            left_by=dict(Counter(a.pattern for a in left)),
            miss_by={a.pattern: a.miss for a in left if a.miss is not None},
        )

    def _turn_of(self, pattern: Any, node: Any) -> int:
        """Entries may share a pattern object: which of them it is, by how often it was tried here."""
        last_pattern, last_node, turn = self._turn
        turn = turn + 1 if last_node is node and last_pattern == id(pattern) else 0
        self._turn = (id(pattern), node, turn)
        return turn

    def _fired(self, tried: Tried, match: Any) -> None:
        self._note(tried, "matched", Near(), None, [node.name for node in match.nodes])

    def _note(
        self,
        tried: Tried,
        outcome: str,
        near: Near,
        miss: NearMiss | None,
        consumed: list[str] | None = None,
    ) -> None:
        site = site_of(tried.node)
        self.attempts.append(
            MatchAttempt(
                pass_id=self.info.id,
                pass_name=self.info.names(self.owner)[0],
                pattern=tried.entry.name,
                graph=self.graph_name,
                graph_id=self.graph_id,
                anchor=site.name,
                outcome=outcome,
                near=bool(near.names) or outcome == "matched",
                near_nodes=near.names,
                near_enough=near.enough,
                miss=miss,
                where=self._line(tried.node) or self._line(site),
                consumed=consumed or [],
                compile_id=current.compile_id(),
            )
        )

    def _line(self, node: Any) -> Where | None:
        text = node.meta.get("stack_trace") or ""
        if text not in self._lines:
            self._lines[text] = of_node(node)
        return self._lines[text]
