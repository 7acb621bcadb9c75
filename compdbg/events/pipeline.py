"""The four-stage pipeline of a serving engine: decorator, split, pieces by size, captures."""

from __future__ import annotations

from msgspec import Struct

from compdbg.events.base import Event, Where


class Decorated(Event, frozen=True):
    """A class or method was decorated for compilation, with these dynamic dimensions."""

    target: str
    dynamic_dims: dict[str, list[int]] = {}
    where: Where | None = None
    enabled: bool = True
    reason: str = ""
    owner: str = ""
    """The class of the instance: `target` may be a base class's."""


class ConfigValue(Event, frozen=True):
    """A configuration value as requested and as in effect, with who changed it and why.

    `asked`: the user set it, at `where` if that is known; what was changed of a default is no one's loss.
    """

    key: str
    requested: str
    effective: str
    changed_by: str = ""
    why: str = ""
    asked: bool = False
    where: Where | None = None


class Boundary(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A value that crosses into or out of a piece."""

    name: str
    type: str = "Tensor"
    shape: list[str] = []
    dtype: str = ""
    unbacked: list[str] = []
    """Symbols in it whose value comes out of data: `u0`."""
    where: Where | None = None
    """The program's line that makes it, of what is no plain tensor."""


class Apart(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A constant of one piece that stands in an otherwise equal one with another value."""

    op: str
    argument: str
    """`argument 1`, or the keyword."""
    here: str
    there: str
    where: Where | None = None


class Piece(Event, frozen=True):
    """One piece of a split graph. `piece_kind`: `compiled`, `splitting`, `inlined`.

    `shared_with` is the first compiled piece that is equal to this one. Where no piece is, but would
    be without a constant, `related_to` is the first such piece, `differs_by` says the constant, and
    `apart` are all of them. A piece that came `loaded` from a cache is known by its name and its twin only.
    """

    graph: str
    piece: str
    piece_kind: str
    ops: int | None = None
    split_op: str | None = None
    shared_with: str | None = None
    loaded: bool = False
    inputs: list[Boundary] = []
    outputs: list[Boundary] = []
    differs_by: str | None = None
    related_to: str | None = None
    apart: list[Apart] = []
    text: str | None = None
    op_counts: dict[str, int] | None = None
    """Operators by name, as the graph has them: `aten::add`, `linear`, `view`. None in older runs."""
    splitter: str = ""
    """What split the graph, where it was not the built-in compiler or vLLM: a function's name."""


class SplitOpUnmatched(Event, frozen=True):
    """A name in `splitting_ops` that no operator of the graph has. `exists`: it is registered.

    `nearest` is a name in the graph that may have been meant; `matched` are the other names in the
    list, which the graph has.
    """

    graph: str
    name: str
    nearest: str | None = None
    exists: bool = False
    matched: list[str] = []


class PieceCompiled(Event, frozen=True):
    """One piece was compiled (or loaded: `reused`) for one range or size."""

    graph: str
    piece: str
    range: str
    duration_ms: float = 0.0
    reused: bool = False
    backend: str = ""
    options: dict[str, str] | None = None
    """What Inductor was told for this one, as patches of its configuration; None where it is not known."""


class Dispatch(Event, frozen=True):
    """How calls of one size were served so far; the last one counts.

    `eager_calls` ran without a CUDA graph: the compiled code itself, as `compiled_as` says;
    `warm_ups` of them because a size runs once before it is captured, `refused` of them because
    an input had moved or a value changed since the capture. `uncaptured` are the reasons, each with
    its calls: `too-large`, `mode` (batches of this kind are not captured), `empty`, `unpaddable` (as
    `why` says), `failed`, `layout`, `gradients`, `disagree` (an input has another size or form than
    the batch says), `overlap` (an input lies in memory of another, which the graph writes to), `moved`,
    `changed`, `form` (metadata of another form).
    """

    graph: str
    size: int
    compiled_as: str | None = None
    padded_to: int | None = None
    replays: int = 0
    replays_by_mode: dict[str, int] = {}
    """`FULL`: of the capture of the whole graph; `PIECEWISE`: of those of its pieces."""
    captures: int = 0
    eager_calls: int = 0
    warm_ups: int = 0
    refused: int = 0
    uncaptured: dict[str, int] = {}
    why: str = ""
    largest: int | None = None
    """The largest size that is to be captured."""
    padding_checks: int | None = None
    """Replays that were checked for added rows that leak; None where that was not asked for."""


class Capture(Event, frozen=True):
    """One CUDA graph (or, on a CPU, one recorded call) was captured.

    Where `error` says that it can't be, `fault` is of `op`, `compile-inside`, `sync`, `alloc`,
    `other-thread`, `collective` or `other`, and `stack` the program's frames at the first illegal
    call, outermost first. Without a `piece` the whole graph was captured;
    the size is 0 where a program captures by itself, and nothing is known of it.
    """

    graph: str
    piece: str
    size: int
    duration_ms: float = 0.0
    bytes: int | None = None
    emulated: bool = False
    mode: str = ""
    error: str | None = None
    fault: str | None = None
    op: str = ""
    thread: str = ""
    stack: list[Where] = []
    where: Where | None = None
