"""Home: the verdict, the run in a few lines, and its findings by what they cost."""

from __future__ import annotations

import msgspec

from compdbg.findings.base import Finding
from compdbg.model.summary import Summary
from compdbg.views.base import Column, Source, View
from compdbg.views.ending import nothing_found, raised, signal_name
from compdbg.views.explanation import explain
from compdbg.views.explorer.base import Block, Page, Place, source_code
from compdbg.views.explorer.words import ROLES, facts, listing, severity_mark, short
from compdbg.views.health import health
from compdbg.views.places import counted, duration
from compdbg.views.summary import verdict

LEADS_TO = {
    "guard-dropped-violated": "guards",
    "guards-kept": "guards",
    "constant-baked": "guards",
    "fusion-missed": "fusion",
    "fusion-no-candidate": "fusion",
    "fusion-not-run": "fusion",
    "fusion-wrong": "fusion",
    "pattern-unmatchable": "fusion",
    "side-effect-removed": "fusion",
    "size-not-captured": "sizes",
    "padding-waste": "sizes",
    "capture-failed": "sizes",
    "capture-address-changed": "sizes",
    "capture-stale-input": "sizes",
    "padded-rows-leak": "sizes",
    "split-op-unmatched": "pieces",
    "split-boundary": "pieces",
    "split-empty-piece": "pieces",
    "pieces-not-shared": "pieces",
    "cache-miss": "cache",
    "cache-stale": "cache",
    "cache-unusable": "cache",
    "slow-compile": "time",
    "stalled": "time",
    "recompiles": "guards",
    "recompile-limit": "guards",
    "dim-specialised": "guards",
}
"""The place that proves a finding; of the others the events do."""


def home_view(source: Source) -> View:
    return View(
        name="home",
        title=verdict(source),
        items=source.findings,
        columns=(
            Column("id", lambda f: f.id),
            Column("severity", lambda f: severity_mark(f.severity), role=lambda f: ROLES[f.severity]),
            Column("where", lambda f: short(f.where)),
            Column("what", lambda f: f.title, wide=True),
        ),
        lines=[*_facts(source), funnel(source)],
        empty=nothing_found(source.run),
    )


def _facts(source: Source) -> list[str]:
    """`label: text`, a line each."""
    run = source.run.summary
    program, ended, versions = known_at_once(run)
    caches = "" if run.cold is None else ", cold caches" if run.cold else ", warm caches"
    worst = health(source).title
    return [program, ended, versions + caches, f"recorder: {worst.removeprefix('The recorder ')}"]


def known_at_once(run: Summary) -> list[str]:
    """What the first events of a run tell: its command, its end, what it ran with."""
    versions = {"torch": run.torch, "triton": run.triton, "vLLM": run.vllm, "Python": run.python}
    who = [f"{name} {version}" for name, version in versions.items() if version]
    who += [run.device] if run.device else []
    who.append(counted(run.processes, "process", "processes"))
    who += [f"ranks {', '.join(map(str, run.ranks))}"] if run.ranks else []
    return [
        f"program: {' '.join(run.argv) or '(unknown)'}",
        f"ended: {_end(run)}",
        f"with: {', '.join(who)}",
    ]


def _end(run: Summary) -> str:
    if not run.complete:
        return "not yet: it runs, or whoever recorded it was stopped"
    took = f"after {duration(run.duration_s)}"
    if run.signal:
        return f"✗ killed by {signal_name(run.signal)} {took}"
    what = f": {raised(run.uncaught)}" if run.uncaught is not None else ""
    if run.exit_status is None:
        return f"{took}; nobody waited for its exit status{what}"
    return f"{'✓' if run.exit_status == 0 else '✗'} exit status {run.exit_status} {took}{what}"


def funnel(source: Source) -> str:
    """How much of the program became what: frames, graphs, pieces, sizes, captures."""
    run = source.run
    compiled = sum(c.result == "compiled" for c in run.frames.compiles)
    graphs = len({g.graph for g in run.graphs if g.stage != "code"})
    pieces = [p for p in run.pieces if p.kind == "compiled"]
    unique = sum(p.shared_with is None for p in pieces)
    steps = [
        f"frames {compiled}/{len(run.frames.compiles)}",
        f"graphs {graphs}",
        f"pieces {unique}/{len(pieces)}",
        f"sizes {len(run.sizes)}",
        f"captures {sum(s.captured for s in run.sizes)}",
    ]
    return " → ".join(steps)


def finding_page(source: Source, finding: Finding) -> Page:
    told = explain(source, finding)
    blocks: list[Block] = [*facts(("", finding.title, "title"))]
    blocks += source_code(source, finding.where)
    blocks += facts(
        ("cause", finding.cause),
        ("cost", told.cost, ROLES[finding.severity]),
        ("do", finding.suggestion, "good"),
        ("code", f"{finding.code}  ({told.page})", "dim"),
    )
    if finding.data:
        blocks.append(listing("data", _data(finding)))
    if told.evidence:
        blocks.append(listing("evidence", told.evidence))
    name = LEADS_TO.get(finding.code, "events")
    return Page(
        title=f"{finding.id} {finding.severity} {finding.code}",
        blocks=blocks,
        where=finding.where,
        leads_to=(name, finding.id),
    )


def _data(finding: Finding) -> list[str]:
    """What the finding knows beyond its sentences, a line a key."""
    return [f"{key} = {msgspec.json.encode(value).decode()}" for key, value in finding.data.items()]


HOME = Place(
    name="home",
    letter="h",
    title="Home",
    view=home_view,
    page=finding_page,
    key=lambda f: f.fingerprint or f.id,
    row=Finding,
)
