"""Caches of compiled artifacts, CUDA graphs of torch's own, and what the trace log carries."""

from __future__ import annotations

from msgspec import Struct

from compdbg.events.base import Event, Where
from compdbg.events.fusion import PatternPass
from compdbg.events.graphs import CloneKept, CloneRemoved, EffectRemoved, PassRun


class FactorChange(Struct, frozen=True, kw_only=True):
    """One component of a cache key that is not as it was: its text before and now, shortened."""

    name: str
    before: str
    after: str


class CacheLookup(Event, frozen=True):
    """One look into one cache. `layer`: `aot`, `fx`, `ours`, `vllm`, `twin`; `result`: `hit`,
    `miss`, `bypass`, `disabled`, `corrupt`, `stale`.
    """

    layer: str
    result: str
    key: str | None = None
    graph: str | None = None
    compile_id: str | None = None
    reason: str = ""
    bytes: int | None = None
    duration_ms: float = 0.0
    factors: str | None = None
    """Payload hash of the key's components, one a line."""
    range: str | None = None
    """The range or size of a piece, where a piece has an entry for each."""
    place: str = ""
    """The function that is compiled, and its stage: what earlier keys are looked up by."""
    nearest_key: str | None = None
    """On a miss: the earlier key, of another process, with the fewest other components."""
    nearest_made: float | None = None
    nearest_run: str = ""
    """Which run stored it; nothing where that was not recorded."""
    nearest_folder: str = ""
    """The cache folder it was stored in, where that is another one than was looked into."""
    changed_factors: list[FactorChange] | None = None


class CacheRemade(Event, frozen=True):
    """What was compiled after a miss is, to the letter, the code of the nearest earlier key.

    The components in which the two keys differ do not matter to this graph.
    """

    layer: str
    key: str
    nearest_key: str
    graph: str
    compile_id: str | None = None


class CachedWork(Event, frozen=True):
    """A hit: no pass ran. What was recorded of how the artifact was made, by the run `run`."""

    layer: str
    key: str
    graph: str
    run: str
    made: float
    passes: list[PassRun] = []
    patterns: list[PatternPass] = []
    compile_id: str | None = None
    copies: list[CloneKept] = []
    lost: list[EffectRemoved] = []
    dropped: list[CloneRemoved] = []


class StaleArtifact(Event, frozen=True):
    """A hit on an artifact whose key is right and whose making is not: what `changes` names is another
    thing now than in the run `run` that made it, and the artifact is used all the same.
    """

    layer: str
    key: str
    graph: str
    run: str
    made: float
    changes: list[FactorChange]
    where: Where | None = None
    compile_id: str | None = None


class CacheProblem(Event, frozen=True):
    """A cache that cannot be used as it is: an unwritable folder, a corrupt entry."""

    layer: str
    reason: str
    path: str = ""


class CudagraphSkip(Event, frozen=True):
    """`mode="reduce-overhead"` was asked for, and torch ran a graph without a CUDA graph."""

    reason: str
    graph: str | None = None
    compile_id: str | None = None
    where: Where | None = None


class CudagraphRecord(Event, frozen=True):
    """torch recorded a CUDA graph; `rerecord_reason` when it had to do so again."""

    graph: str | None = None
    rerecord_reason: str = ""
    compile_id: str | None = None


class TraceArtifact(Event, frozen=True):
    """One record of `torch.__trace` that no other event carries."""

    name: str
    text: str
    """Content hash in the payload store."""
    encoding: str = ""
    compile_id: str | None = None
