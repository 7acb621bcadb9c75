"""The vocabulary: every event that compdbg records, as a frozen structure. Imports nothing of ours."""

from __future__ import annotations

from compdbg.events.base import SCHEMA, Event, Header, UnknownEvent, Where
from compdbg.events.caches import (
    CachedWork,
    CacheLookup,
    CacheProblem,
    CacheRemade,
    CudagraphRecord,
    CudagraphSkip,
    FactorChange,
    StaleArtifact,
    TraceArtifact,
)
from compdbg.events.captures import AddressChanged, PaddingLeak, StaleInput
from compdbg.events.frames import (
    CompileError,
    CompileRequest,
    FrameCalls,
    FrameCode,
    FrameEnd,
    FrameStart,
    GraphBreak,
    NotCompiled,
    RecompileLimit,
    RecompileReason,
    Span,
    SpanBegin,
    Stance,
)
from compdbg.events.fusion import (
    FusionCalled,
    FusionCompile,
    FusionEnabled,
    FusionsDiffer,
    LinkedPass,
    MatchAttempt,
    NearMiss,
    Outcome,
    Pattern,
    PatternForm,
    PatternPass,
    PatternPassMade,
    PatternProblem,
    PatternRegistered,
    Reason,
    ReplacementsChecked,
    ReplacementWrong,
)
from compdbg.events.graphs import (
    CloneKept,
    CloneRemoved,
    EffectRemoved,
    GeneratedCode,
    Graph,
    PassRun,
)
from compdbg.events.guards import Guard, GuardAudit, Guards, GuardViolation
from compdbg.events.numerics import Compared
from compdbg.events.ops import OpsChecked, OpWrong
from compdbg.events.pipeline import (
    Apart,
    Boundary,
    Capture,
    ConfigValue,
    Decorated,
    Dispatch,
    Piece,
    PieceCompiled,
    SplitOpUnmatched,
)
from compdbg.events.process import (
    ChildEnd,
    EventsLost,
    HookError,
    HookState,
    ProcessEnd,
    ProcessMissed,
    ProcessStart,
    TorchLoaded,
)
from compdbg.events.symbols import SizeBranch, Symbol, SymbolFixed, SymbolJoined

__all__ = [
    "SCHEMA", "AddressChanged", "Apart", "Boundary", "CacheLookup", "CacheProblem", "CacheRemade",
    "CachedWork", "Capture", "ChildEnd", "CloneKept", "CloneRemoved", "Compared", "CompileError",
    "CompileRequest", "ConfigValue", "CudagraphRecord", "CudagraphSkip", "Decorated", "Dispatch",
    "EffectRemoved", "Event", "EventsLost", "FactorChange", "FrameCalls", "FrameCode", "FrameEnd",
    "FrameStart", "FusionCalled", "FusionCompile", "FusionEnabled", "FusionsDiffer", "GeneratedCode", "Graph",
    "GraphBreak",
    "Guard", "GuardAudit", "GuardViolation", "Guards", "Header", "HookError", "HookState", "LinkedPass",
    "MatchAttempt", "NearMiss", "NotCompiled", "OpWrong", "OpsChecked", "Outcome", "PaddingLeak", "PassRun",
    "Pattern", "PatternForm", "PatternPass", "PatternPassMade", "PatternProblem", "PatternRegistered",
    "Piece", "PieceCompiled", "ProcessEnd", "ProcessMissed", "ProcessStart", "Reason", "RecompileLimit",
    "RecompileReason", "ReplacementWrong", "ReplacementsChecked", "SizeBranch", "Span", "SpanBegin",
    "SplitOpUnmatched", "StaleArtifact", "StaleInput", "Stance", "Symbol", "SymbolFixed", "SymbolJoined",
    "TorchLoaded", "TraceArtifact", "UnknownEvent", "Where", "event_types",
]  # fmt: skip


def event_types() -> tuple[type[Event], ...]:
    """All event classes; what a reader decodes a line into."""
    found = (value for value in globals().values() if isinstance(value, type))
    return tuple(cls for cls in found if issubclass(cls, Event) and cls is not Event)
