"""The sections of a report: which views each shows, and where a finding's evidence is drawn."""

from __future__ import annotations

from typing import NamedTuple

from compdbg.findings.base import Finding


class Section(NamedTuple):
    """One section: its id, which links name, its title, and its views in their order."""

    id: str
    title: str
    views: tuple[str, ...]
    about: str


SECTIONS: tuple[Section, ...] = (
    Section("fusion", "Fusion", ("fusion",), "What became of each pattern of each pass."),
    Section(
        "guards", "Guards and recompiles", ("frames", "guards"),
        "Every compile of every frame, and the guards that it depends on.",
    ),
    Section(
        "sizes", "Sizes and captures", ("sizes", "numerics", "memory"),
        "The sizes that were called: compiled, padded, captured, replayed.",
    ),
    Section("splits", "Split", ("splits",), "The pieces of the split graph and what crosses their borders."),
    Section("cache", "Caches", ("cache",), "Each look into a cache, and on a miss what differs."),
    Section("time", "Time", ("time",), "Where start-up and compiling spent their time."),
    Section("code", "Code", ("passes",), "Each graph in its stages, and what each pass changed."),
    Section("events", "Events", ("events",), "Everything that was recorded, in the order of time."),
    Section(
        "environment", "Environment and health", ("config", "health"),
        "Versions, configuration, and how well the recorder itself did.",
    ),
)  # fmt: skip

_SECTION_OF = {
    "fusion": (
        "fusion-missed", "fusion-no-candidate", "fusion-not-run", "pattern-unmatchable", "fusion-wrong",
    ),
    "guards": (
        "guard-dropped-violated", "guards-kept", "constant-baked", "dim-specialised", "compile-failed",
        "recompiles", "recompile-limit", "graph-break", "nothing-compiled",
    ),
    "sizes": (
        "size-not-captured", "padding-waste", "capture-failed", "capture-address-changed",
        "capture-stale-input", "padded-rows-leak", "diverges",
    ),
    "splits": ("split-op-unmatched", "split-boundary", "split-empty-piece", "pieces-not-shared"),
    "cache": ("cache-miss", "cache-stale", "cache-unusable"),
    "time": ("slow-compile", "stalled"),
    "code": ("side-effect-removed", "clone-removed", "clone-kept", "op-schema-wrong", "rank-divergence"),
    "environment": ("config-overridden", "recorder-degraded"),
}  # fmt: skip
_COMPILES = frozenset(
    ("compile-failed", "recompiles", "recompile-limit", "graph-break", "nothing-compiled", "dim-specialised")
)
_BY_CODE = {code: section for section, codes in _SECTION_OF.items() for code in codes}


def section_of(finding: Finding) -> Section:
    """Where a finding's evidence is drawn; the events for a code that no section is made for."""
    wanted = _BY_CODE.get(finding.code, "events")
    return next(section for section in SECTIONS if section.id == wanted)


def place_of(finding: Finding) -> str:
    """The part of that section that shows it: the view of a section of several, or the section."""
    return "frames" if finding.code in _COMPILES else section_of(finding).id
