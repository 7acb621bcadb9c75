"""Fusion: a row a pass × pattern × graph with its outcome in words, and each pass as a whole."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cached_property

import msgspec
from msgspec import Struct

from compdbg.events import PatternForm, PatternPass, PatternProblem, Piece
from compdbg.model.fusion_cached import cached_rows
from compdbg.model.fusion_idle import Idle, build_idle
from compdbg.model.fusion_rows import ORDER, Applied, FusionRow, idle_row, rows_of
from compdbg.model.fusion_sites import Site, build_sites
from compdbg.store.reader import Log


class PassFusion(Struct, frozen=True, kw_only=True):
    """One pass over all its graphs.

    `matched` counts one rank, shared twins of a piece each once more; None where it is not known,
    because a cache served the compile and no record says how the cache was filled. `left` counts
    sites in the same way, each once however many patterns nearly took it.
    """

    name: str
    aliases: list[str]
    outcome: str
    matched: int | None
    matched_by_rank: dict[str, int | None]
    left: int
    rows: list[FusionRow]
    custom: bool

    def __repr__(self) -> str:
        """Short, with the near miss: what a failed assertion shows of it."""
        missed = (f"{row.pattern} {row.why}" for row in self.rows if row.outcome == "missed")
        why = next(missed, None) or next((row.why for row in self.rows if row.matched is None), "")
        return f"<{self.name} {self.outcome}, matched {self.matched}{why and f'; {why}'}>"


class Fusion:
    """What became of every fusion of a run: iterate over rows, or take a pass by any of its names."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self.sites: list[Site] = build_sites(log)
        self.problems: list[tuple[str, PatternProblem]] = [(h.id, e) for h, e in log.of(PatternProblem)]
        self.forms: list[tuple[str, PatternForm]] = [(h.id, e) for h, e in log.of(PatternForm)]
        self.applied: dict[tuple[str, str], Applied] = _applied(log)
        self.idle: list[Idle] = build_idle(log, {k: a.name for k, a in self.applied.items()})

    @cached_property
    def rows(self) -> list[FusionRow]:
        found: list[FusionRow] = []
        sites: dict[tuple[str, str], list[Site]] = defaultdict(list)
        for site in self.sites:
            sites[site.process, site.pass_id].append(site)
        forms = {(f.pass_name, f.pattern, f.graph): f for _, f in reversed(self.forms)}
        for key, applied in self.applied.items():
            for row in rows_of(applied, sites[key]):
                form = forms.get((applied.name, row.pattern or "", row.graph or ""))
                found.append(_with_form(row, form))
        known = cached_rows(self._log)
        told = {(row.process, name) for row in known for name in (row.pass_, *row.pass_aliases)}
        found += known
        found += [idle_row(i) for i in self.idle if i.outcome != "cached" or (i.process, i.name) not in told]
        found = [msgspec.structs.replace(r, pieces=self.pieces(r.graph)) for r in found]
        return sorted(found, key=lambda r: (not r.custom, r.pass_))

    def __iter__(self) -> Iterator[FusionRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, name: str) -> PassFusion:
        """A pass by its class, its `pass_name` or another alias.

        Raises:
            KeyError: no such pass was seen.
        """
        for found in self.passes:
            if name == found.name or name in found.aliases:
                return found
        seen = ", ".join(p.name for p in self.passes if p.custom) or "none"
        raise KeyError(f"no pass {name!r} was seen in this run; custom passes seen: {seen}")

    def __contains__(self, name: object) -> bool:
        return any(name == p.name or name in p.aliases for p in self.passes)

    @cached_property
    def passes(self) -> list[PassFusion]:
        """Every pass as a whole, custom ones first."""
        grouped: dict[str, list[FusionRow]] = defaultdict(list)
        for row in self.rows:
            grouped[row.pass_].append(row)
        left = self._left()
        return [_pass(name, rows, left) for name, rows in grouped.items()]

    def _left(self) -> Counter[tuple[str, str]]:
        """Sites that a pass left on a rank. Of a cached compile only what each pattern left is known."""
        left: Counter[tuple[str, str]] = Counter()
        for site in self.sites:
            applied = self.applied.get((site.process, site.pass_id))
            if applied is not None and site.state == "missed":
                left[applied.name, rank_key(applied.rank)] += self.pieces(site.graph)
        cached: dict[tuple[str, str, str | None], int] = {}
        for row in self.rows:
            if row.outcome == "cached":
                key = row.pass_, rank_key(row.rank), row.graph
                cached[key] = max(cached.get(key, 0), (row.sites_left or 0) * row.pieces)
        for (name, rank, _), count in cached.items():
            left[name, rank] += count
        return left

    def pieces(self, graph: str | None) -> int:
        """How many pieces run what was compiled for a graph: it, and its twins."""
        twins = self._twins.items()
        return next((1 + n for piece, n in twins if f"{graph} ".startswith(f"{piece} ")), 1)

    @cached_property
    def _twins(self) -> dict[str, int]:
        """How many further pieces run what was compiled for a piece."""
        twins: dict[str, int] = defaultdict(int)
        for _, piece in self._log.of(Piece):
            if piece.shared_with:
                twins[f"{piece.graph} {piece.shared_with}"] += 1
        return twins


def _with_form(row: FusionRow, form: PatternForm | None) -> FusionRow:
    """A row without a candidate says in which other form the graph holds its pattern."""
    if form is None or row.outcome != "no-candidate":
        return row
    return msgspec.structs.replace(row, why=in_words(form))


def _applied(log: Log) -> dict[tuple[str, str], Applied]:
    found: dict[tuple[str, str], Applied] = {}
    for header, event in log.of(PatternPass):
        key = (header.process, event.pass_id)
        applied = found.get(key)
        if applied is None:
            applied = found[key] = Applied(
                name=event.pass_name,
                aliases=list(event.aliases),
                custom=event.custom,
                process=header.process,
                rank=header.rank,
                pass_id=event.pass_id,
            )
        applied.patterns = event.patterns or applied.patterns
        applied.custom = applied.custom or event.custom
        applied.runs.append((header.id, event))
    return found


def _pass(name: str, rows: list[FusionRow], left: Counter[tuple[str, str]]) -> PassFusion:
    by_rank: dict[str, list[FusionRow]] = defaultdict(list)
    for row in rows:
        by_rank[rank_key(row.rank)].append(row)
    matched = {rank: _matched(mine) for rank, mine in by_rank.items()}
    return PassFusion(
        name=name,
        aliases=list(dict.fromkeys(alias for row in rows for alias in row.pass_aliases)),
        outcome=whole_outcome([row.outcome for row in rows]),
        matched=matched[min(matched)],
        matched_by_rank=matched,
        left=left[name, min(matched)],
        rows=rows,
        custom=rows[0].custom,
    )


def rank_key(rank: int | None) -> str:
    """What `matched_by_rank` calls a rank; of a program without ranks there is one, with no name."""
    return "" if rank is None else str(rank)


def _matched(rows: list[FusionRow]) -> int | None:
    if any(row.matched is None for row in rows):
        return None
    return sum((row.matched or 0) * row.pieces for row in rows)


FORMS = {
    "decomposed": "the graph computes {wanted} with {found}, op by op",
    "overload": "the graph calls {found} where the pattern has {wanted}",
    "torch-function": "the graph still calls {found}, and the pattern has {wanted}",
}


def in_words(form: PatternForm) -> str:
    """Another form of a pattern as a clause."""
    return FORMS[form.form].format(wanted=form.wanted, found=form.found)


def whole_outcome(outcomes: list[str]) -> str:
    """Of a pass over its patterns and graphs: missed where a site was left, else the best there is."""
    return min(outcomes, key=ORDER.index)
