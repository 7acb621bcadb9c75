"""Fusion: each pattern of each pattern-matcher pass, each attempt, and where it stopped."""

from __future__ import annotations

from collections.abc import Container
from typing import Literal

from msgspec import Struct

from compdbg.events.base import Event, Where

Outcome = Literal["fired", "missed", "superseded", "no-candidate", "not-run", "cached", "unobservable"]
Reason = Literal[
    "target-mismatch",
    "multiple-users",
    "arg-mismatch",
    "dtype-mismatch",
    "shape-mismatch",
    "kwarg-mismatch",
    "extra-check",
    "retrace-mismatch",
    "mutation-region",
    "stream-boundary",
    "unsupported-dtype",
    "crosses-split",
    "other",
]


class Pattern(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A registered pattern. `name` is its search function's, made unique within the pass."""

    name: str
    where: Where | None = None
    anchors: list[str] = []
    ops: list[str] = []
    nodes: int = 0
    steps: list[str] = []
    """The pattern as lines of code, inputs first."""


class PatternPassMade(Event, frozen=True):
    """A `PatternMatcherPass` was made outside torch, at `where`: a custom fusion exists."""

    pass_id: str
    pass_name: str
    where: Where | None = None


class NearMiss(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where matching stopped: at `node`, `wanted` in the pattern against `found` in the graph."""

    reason: Reason
    stage: str
    """`first` (loose), `second` (retraced at the real shapes), `check` or `discard`."""
    node: str = ""
    wanted: str = ""
    found: str = ""
    matched_nodes: int = 0
    pattern_nodes: int = 0
    where: Where | None = None
    detail: str = ""
    boundary: str = ""
    """`input` or `output`: the graph's edge stands where the pattern wants an op."""
    edge_index: int | None = None
    """Which of the graph's inputs it is."""


class PatternPass(Event, frozen=True):
    """One `apply` of a pattern-matcher pass to one graph, with all its patterns.

    `graph_id` tells apart graphs of one name (the joint and the post-grad graph of a frame).
    """

    pass_id: str
    pass_name: str
    graph: str
    graph_id: int = 0
    aliases: list[str] = []
    custom: bool = True
    traced: bool = True
    """False: attempts and matches are counted only (torch's own passes, unless asked for)."""
    stage: str = ""
    """`pre-grad`, `joint`, `post-grad`, or empty where Inductor did not call it."""
    patterns: list[Pattern] = []
    """All patterns of the pass, in the first event of the pass and whenever there are new ones."""
    attempted: int = 0
    matched: int = 0
    matched_by: dict[str, int] = {}
    attempted_by: dict[str, int] = {}
    us_by: dict[str, float] = {}
    duration_us: float = 0.0
    left_by: dict[str, int] = {}
    """Only in what is kept with a cached artifact, where attempts are not: sites that each pattern
    nearly took and no pattern did; `miss_by` has the nearest miss of each."""
    miss_by: dict[str, NearMiss] = {}
    compile_id: str | None = None


class MatchAttempt(Event, frozen=True):
    """One pattern tried at one anchor node of one graph. `outcome`: `matched`, `missed`, `discarded`.

    `near` says that, besides the anchor, another op of the pattern stands within 4 hops of where
    matching stopped, or, of a pattern of common ops, most of them: only then is a site that nothing
    took a miss.
    """

    pass_id: str
    pass_name: str
    pattern: str
    graph: str
    anchor: str
    outcome: str
    graph_id: int = 0
    near: bool = False
    near_nodes: list[str] = []
    """The nodes of those ops, matched or close by, nearest first: who else took them matters."""
    near_enough: int = 1
    """How many of those nodes it takes: of ops that are everywhere, all but a few."""
    miss: NearMiss | None = None
    where: Where | None = None
    """The user's line of the anchor."""
    consumed: list[str] = []
    """Of a match: the nodes that it replaced."""
    compile_id: str | None = None

    def is_near_without(self, taken: Container[str]) -> bool:
        """Whether enough is near, where other matches took the nodes `taken`."""
        return self.near and sum(name not in taken for name in self.near_nodes) >= self.near_enough


class PatternProblem(Event, frozen=True):
    """A registered pattern is broken in itself. `problem`: `no-self-match`, `unreachable-output`,
    `lost-nodes`.
    """

    pass_id: str
    pass_name: str
    pattern: str
    problem: str
    detail: str
    where: Where | None = None


class PatternForm(Event, frozen=True):
    """Nothing for a pattern to match, but the graph holds it in another form.

    `form`: `decomposed` (an op of the pattern stands there as the ops it is made of),
    `overload` (the same op, another overload), `torch-function` (the graph is not in ATen ops yet).
    """

    pass_id: str
    pass_name: str
    pattern: str
    graph: str
    form: str
    wanted: str
    found: str
    graph_id: int = 0
    where: Where | None = None
    compile_id: str | None = None


class LinkedPass(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A pattern-matcher pass that a configured callable holds or calls."""

    pass_id: str
    name: str
    aliases: list[str] = []
    where: Where | None = None


class FusionEnabled(Event, frozen=True):
    """A pass was put into `slot` of Inductor's configuration, at the user's line `where`.

    `key` names the callable in this process. `by_user`: not set by a library in passing. With
    `compile_id` it was set for that compile (`torch.compile(options=...)`).
    """

    slot: str
    key: str
    name: str
    passes: list[LinkedPass] = []
    where: Where | None = None
    by_user: bool = False
    compile_id: str | None = None


class FusionCompile(Event, frozen=True):
    """A graph goes to its backend while these passes (`FusionEnabled.key`) are configured."""

    compile_id: str | None
    backend: str
    enabled: list[str] = []
    pattern_matcher: bool = True
    disabled_passes: str = ""
    elsewhere: bool = False
    """Inductor compiles in another process, where its passes are not seen."""


class FusionCalled(Event, frozen=True):
    """Inductor came to a configured pass and called it, or, `disabled_by` a setting, did not."""

    slot: str
    key: str
    graph: str
    disabled_by: str | None = None
    compile_id: str | None = None


class ReplacementWrong(Event, frozen=True):
    """What a pattern put into a graph is not like what it took out, at the region's output `output`.

    `fault`: `dtype`, `shape`, `strides`, `device`, or `values` (on random inputs, under
    `--check-replacements`). `wanted` is the region's, `found` the replacement's.
    """

    pass_id: str
    pass_name: str
    pattern: str
    graph: str
    fault: str
    output: str
    wanted: str = ""
    found: str = ""
    graph_id: int = 0
    where: Where | None = None
    """The user's line that was replaced."""
    replacement: Where | None = None
    """Where the replacement is defined."""
    max_abs: float | None = None
    """Of `values`; None where one gives NaN and the other a number."""
    max_rel: float | None = None
    scale: float | None = None
    """About how large the random inputs were."""
    compile_id: str | None = None
    custom: bool = True
    """Registered from outside torch; of torch's own, only under `--check-replacements`."""


class ReplacementsChecked(Event, frozen=True):
    """How many replacements of one apply were compared with their regions, and on values."""

    pass_id: str
    graph: str
    compared: int
    values_compared: int = 0


class PatternRegistered(Event, frozen=True):
    """A pattern from outside torch was registered in one of torch's own passes."""

    pass_id: str
    pass_name: str
    pattern: str
    where: Where | None = None


class FusionsDiffer(Event, frozen=True):
    """While it compiled, this rank saw that another matched a pass another number of times in such a graph.

    Of two ranks, the one that came later says so: one that is recorded alone may know.
    """

    pass_name: str
    graph: str
    matched: int
    other_rank: int
    other_matched: int
