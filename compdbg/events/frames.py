"""Dynamo: what was asked to be compiled, and what became of each frame."""

from __future__ import annotations

from compdbg.events.base import Event, Where


class CompileRequest(Event, frozen=True):
    """One call of `torch.compile` (or `nn.Module.compile`), at the user's line `where`."""

    target: str
    where: Where | None = None
    target_where: Where | None = None
    """Where the function or the module's forward is defined."""
    request: str = ""
    """Names this request in the events of its frames, in forked children too: `PID.N`."""
    code: str = ""
    """The frame that Dynamo will see: the function's own, or the forward's of a module."""
    internal: bool = False
    """Asked for by torch itself, not by the user."""
    backend: str = "inductor"
    mode: str | None = None
    fullgraph: bool = False
    dynamic: bool | None = None
    drops_guards: bool = False
    lost_guard_filter: bool = False
    """The options are the object of an earlier request whose `guard_filter_fn` torch took out."""
    filter_taken_by: str | None = None
    """That earlier request."""
    disabled_by: str | None = None
    """Why this request compiles nothing: a stance, an environment variable, `disable=True`."""


class Stance(Event, frozen=True):
    """`torch.compiler.set_stance` or an equivalent switch that changes what gets compiled."""

    stance: str
    where: Where | None = None


class NotCompiled(Event, frozen=True):
    """A call of something asked to be compiled ran eager without an attempt; the first such call."""

    request: str
    reason: str
    where: Where | None = None


class FrameStart(Event, frozen=True):
    """Dynamo starts to compile a frame. `frame` is `FILE:FIRSTLINE:NAME`, equal over compiles.

    `where` is the frame's definition, or for library code the user's line that called into it.
    """

    frame: str
    compile_id: str
    where: Where | None = None
    resume_of: str | None = None
    """For a resume function after a graph break: the frame that broke."""
    request: str = ""
    name: str = ""
    """`Block.forward`: the function's name with its class, where it has one."""
    call: int | None = None
    """The call of the frame that is being compiled, from 1; None where calls are not counted."""
    limit: int | None = None
    """How many entries torch makes for one frame."""


class FrameEnd(Event, frozen=True):
    """`result`: `compiled`, `failed`, `skipped`, `eager`; `reason` for all but the first.

    A frame that torch skips without trying to compile it has no start and no compile id.
    """

    frame: str
    compile_id: str
    result: str
    reason: str = ""
    duration_ms: float = 0.0
    graph_ops: int | None = None
    request: str = ""


class FrameCode(Event, frozen=True):
    """The code that Dynamo put in a frame's place."""

    frame: str
    compile_id: str
    text: str
    """Content hash of it as data: its parts, and its disassembly by the Python that ran it."""
    name: str = ""


class FrameCalls(Event, frozen=True):
    """How often one compiled entry has been called so far; the last one counts."""

    frame: str
    compile_id: str
    calls: int


class GraphBreak(Event, frozen=True):
    """A break of the graph. `stack` is the user's, outermost first."""

    frame: str
    compile_id: str
    reason: str
    explanation: str = ""
    hint: str = ""
    gb_type: str = ""
    where: Where | None = None
    stack: list[Where] = []
    fatal: bool = False
    function: str = ""
    """The innermost function of the user's on the stack, as a frame: where the cause is written."""
    function_name: str = ""
    by_torch: bool = False
    """torch's own code breaks here on purpose (the wrappers around an optimizer's step)."""
    request: str = ""


class RecompileReason(Event, frozen=True):
    """Guards of `failed_compile_id` that failed and led to the compile `compile_id`."""

    frame: str
    compile_id: str
    failed_compile_id: str
    reason: str
    where: Where | None = None


class RecompileLimit(Event, frozen=True):
    """The limit was hit: from call `call` on, calls that match no entry run eager."""

    frame: str
    compile_id: str
    limit: str
    limit_value: int | None = None
    call: int | None = None
    """The call of the frame that hit the limit, from 1; None where calls are not counted."""
    raises: bool = False
    """Calls that match no entry raise (`fullgraph`, `fail_on_recompile_limit_hit`)."""
    request: str = ""


class CompileError(Event, frozen=True):
    """A compile raised. `root_*` is the innermost cause; `op` and `where` the user's, if known."""

    frame: str
    compile_id: str
    stage: str
    error: str
    message: str
    root_error: str
    root_message: str
    op: str | None = None
    where: Where | None = None
    suppressed: bool = False
    """torch fell back to eager (`suppress_errors`) instead of raising to the caller."""
    traceback: str = ""
    backend: str | None = None
    direction: str = "forward"
    """`backward` where a backward graph was being compiled."""
    request: str = ""
    graph: str | None = None
    """The graph that was being compiled, where it has a name of its own: a piece of a split graph."""
    pattern: str | None = None
    """The pattern that Inductor was fitting to the graph, or replacing, when it raised."""


class Span(Event, frozen=True):
    """A phase that has ended, as torch times it: its start is the header's time minus duration.

    `begin` is the `seq` of its `SpanBegin`, which is also the parent of what happened inside.
    """

    name: str
    duration_s: float
    compile_id: str | None = None
    category: str = ""
    begin: int | None = None


class SpanBegin(Event, frozen=True):
    """A phase that began; without a `Span` of the same `begin` it was open when the log ends."""

    name: str
    compile_id: str | None = None
    category: str = ""
