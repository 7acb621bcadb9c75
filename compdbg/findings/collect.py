"""Runs every rule, drops what only follows from another cause, ranks by cost and names them."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable
from pathlib import PurePath

import msgspec

from compdbg.findings.base import Finding, Rule
from compdbg.findings.cache_miss import cache_miss
from compdbg.findings.cache_stale import cache_stale
from compdbg.findings.cache_unusable import cache_unusable
from compdbg.findings.capture_address_changed import capture_address_changed
from compdbg.findings.capture_failed import capture_failed
from compdbg.findings.capture_stale_input import capture_stale_input
from compdbg.findings.clone_kept import clone_kept
from compdbg.findings.clone_removed import clone_removed
from compdbg.findings.compile_failed import compile_failed
from compdbg.findings.config_overridden import config_overridden
from compdbg.findings.constant_baked import constant_baked
from compdbg.findings.dim_specialised import dim_specialised
from compdbg.findings.diverges import diverges
from compdbg.findings.fusion_missed import fusion_missed
from compdbg.findings.fusion_no_candidate import fusion_no_candidate, is_idle
from compdbg.findings.fusion_not_run import fusion_not_run
from compdbg.findings.fusion_wrong import fusion_wrong
from compdbg.findings.graph_break import graph_break
from compdbg.findings.guard_dropped_violated import guard_dropped_violated
from compdbg.findings.guards_kept import guards_kept
from compdbg.findings.nothing_compiled import nothing_compiled
from compdbg.findings.op_schema_wrong import op_schema_wrong
from compdbg.findings.padded_rows_leak import padded_rows_leak
from compdbg.findings.padding_waste import padding_waste
from compdbg.findings.pages import CODES
from compdbg.findings.pattern_unmatchable import pattern_unmatchable
from compdbg.findings.pieces_not_shared import pieces_not_shared
from compdbg.findings.rank_divergence import rank_divergence
from compdbg.findings.recompile_limit import recompile_limit
from compdbg.findings.recompiles import recompiles
from compdbg.findings.recorder_degraded import recorder_degraded
from compdbg.findings.side_effect_removed import side_effect_removed
from compdbg.findings.size_not_captured import size_not_captured
from compdbg.findings.slow_compile import slow_compile
from compdbg.findings.split_boundary import split_boundary
from compdbg.findings.split_empty_piece import split_empty_piece
from compdbg.findings.split_op_unmatched import split_op_unmatched
from compdbg.findings.stalled import stalled
from compdbg.findings.third_party import third_party_codes, third_party_findings
from compdbg.model.run import Run

RULES: tuple[Rule, ...] = (
    cache_miss,
    cache_stale,
    cache_unusable,
    capture_address_changed,
    capture_failed,
    capture_stale_input,
    clone_kept,
    clone_removed,
    compile_failed,
    config_overridden,
    constant_baked,
    dim_specialised,
    diverges,
    fusion_missed,
    fusion_no_candidate,
    fusion_not_run,
    fusion_wrong,
    graph_break,
    guard_dropped_violated,
    guards_kept,
    nothing_compiled,
    op_schema_wrong,
    padded_rows_leak,
    padding_waste,
    pattern_unmatchable,
    pieces_not_shared,
    rank_divergence,
    recompile_limit,
    recompiles,
    recorder_degraded,
    side_effect_removed,
    size_not_captured,
    slow_compile,
    stalled,
    split_boundary,
    split_empty_piece,
    split_op_unmatched,
)

_BEFORE: tuple[tuple[str, ...], ...] = (
    (
        "op-schema-wrong",
        "cache-stale",
        "clone-removed",
        "side-effect-removed",
        "guard-dropped-violated",
        "capture-stale-input",
        "diverges",
    ),
    ("guard-dropped-violated", "dim-specialised"),  # the same size: wrong results before their cause
    ("dim-specialised", "guard-dropped-violated"),  # harmless there
    ("graph-break", "compile-failed", "nothing-compiled"),
    ("fusion-wrong", "compile-failed"),
    ("fusion-wrong", "diverges"),
    ("padded-rows-leak", "diverges"),
    ("dim-specialised", "compile-failed"),
    ("dim-specialised", "recompile-limit", "recompiles"),
    ("split-boundary", "compile-failed", "nothing-compiled"),
    ("dim-specialised", "recompiles"),
    ("recompile-limit", "recompiles"),
    ("pattern-unmatchable", "fusion-missed"),
    ("capture-failed", "size-not-captured"),
)
"""Root before effect, as in the contract; an effect is dropped only if its root explains it."""

_PAIRS = {(root, effect) for chain in _BEFORE for n, root in enumerate(chain) for effect in chain[n + 1 :]}

_SEVERITY = {"error": 0, "warning": 1, "info": 2}
_RESULTS = {"wrong": 0, "failed": 1, "same": 2, None: 3}


def find_all(run: Run, told: Callable[[str, float], None] = lambda code, part: None) -> list[Finding]:
    """All findings of a run, most costly first, `F1` on; `told` which are being looked for, and how far."""
    found: list[Finding] = []
    for n, rule in enumerate(RULES):
        told(rule.__name__.replace("_", "-"), n / len(RULES))
        found += rule(run)
    found += third_party_findings(run)
    ranked = sorted(_without_effects(found), key=_rank)
    return [_named(finding, n) for n, finding in enumerate(ranked, 1)]


def known_codes() -> list[str]:
    """Every code that a finding can have here: ours, and those of rules of other packages."""
    ordered = (code for chain in _BEFORE for code in chain)
    return list(dict.fromkeys([*CODES, *ordered, *third_party_codes()]))


def _without_effects(found: list[Finding]) -> list[Finding]:
    """What no root explains: of thousands, only roots that share an event are looked at."""
    explained = [{*root.explains, *root.evidence} for root in found]
    roots: dict[str, list[int]] = defaultdict(list)
    for number, events in enumerate(explained):
        for event in events:
            roots[event].append(number)

    def follows(effect: Finding) -> bool:
        return any(
            (found[n].code, effect.code) in _PAIRS and explained[n].issuperset(effect.evidence)
            for n in roots[effect.evidence[0]]
        )

    return [finding for finding in found if not finding.evidence or not follows(finding)]


def _rank(finding: Finding) -> tuple[int, bool, int, float, str, str]:
    cost = finding.cost
    return (
        _SEVERITY[finding.severity],
        is_idle(finding),
        _RESULTS[cost.results],
        -(cost.seconds or 0.0) - (cost.bytes or 0) / 1e9,
        finding.code,
        finding.title,
    )


def _named(finding: Finding, number: int) -> Finding:
    place = f"{PurePath(finding.where.file).name}:{finding.where.line}" if finding.where else ""
    key = f"{finding.code}|{place}|{finding.subject}"
    return msgspec.structs.replace(
        finding,
        id=f"F{number}",
        fingerprint=hashlib.blake2b(key.encode(), digest_size=6).hexdigest(),
        doc=f"findings/{finding.code}.md" if finding.code in CODES else finding.doc,
    )
