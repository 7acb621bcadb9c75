"""What one forward pass is: its batch, how it is to be run, and the attention metadata of its caller.

`set_forward_context` is for whoever serves a model; `pushed` is for the compiler, which puts a
context of its own around the compiled code: the batch as padded and the mode to run in. Splitting
operators read `current().attn_metadata` from either.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from compdbg.compiler.capture_rules import Fault
    from compdbg.compiler.config import CUDAGraphMode
    from compdbg.compiler.static_inputs import SizedCall


class BatchDescriptor(NamedTuple):
    """What tells one capture from another: rows of the batch, and whether each request has one."""

    num_tokens: int
    uniform_decode: bool = False


class ForwardContext:
    """One forward pass. A plain object, because captured pieces read it on every call.

    `runtime_mode` and `key` are the compiler's: how pieces run in this pass, and a small number that
    names the batch descriptor. `true_size` is the number of rows that are not padding. `capturing`
    says whether pieces without a capture at `key` are captured now; None leaves it to each piece,
    which then runs once before it is captured. `failure` is the fault that ended a capture.
    """

    __slots__ = (
        "attn_metadata",
        "batch",
        "capturing",
        "failure",
        "key",
        "runtime_mode",
        "true_size",
        "uniform_decode",
    )

    def __init__(
        self,
        attn_metadata: Any = None,
        *,
        batch: BatchDescriptor | None = None,
        runtime_mode: CUDAGraphMode | None = None,
        key: int = -1,
        true_size: int | None = None,
        uniform_decode: bool = False,
    ) -> None:
        self.attn_metadata = attn_metadata
        self.batch = batch
        self.runtime_mode = runtime_mode
        self.key = key
        self.true_size = true_size
        self.uniform_decode = uniform_decode
        self.capturing: bool | None = None
        self.failure: Fault | None = None

    def __repr__(self) -> str:
        mode = "as configured" if self.runtime_mode is None else self.runtime_mode.name
        return f"ForwardContext({self.batch}, {mode}, rows={self.true_size})"


class Warming:
    """A warm-up under way: what each call is to do, and the compiled graphs that took part."""

    def __init__(self) -> None:
        self.capture = False
        self.calls: list[SizedCall] = []

    def enlist(self, call: SizedCall) -> None:
        if call not in self.calls:
            self.calls.append(call)


class _Here(threading.local):
    context: ForwardContext | None = None
    warming: Warming | None = None


_here = _Here()


def current() -> ForwardContext | None:
    """The context of the forward pass that this thread is in; None outside one."""
    return _here.context


def warming() -> Warming | None:
    """The warm-up that this thread is in, if any."""
    return _here.warming


@contextmanager
def set_forward_context(
    attn_metadata: Any = None, *, uniform_decode: bool = False, true_size: int | None = None
) -> Iterator[ForwardContext]:
    """Calls of compiled models inside the block are one forward pass with this metadata.

    `uniform_decode` says that each request of the batch has one token: modes that treat decode
    apart (`FULL_DECODE_ONLY`, `FULL_AND_PIECEWISE`) choose by it. `true_size` is for callers who
    pad their inputs themselves: the rows that count.

    Where attention is inside a capture (mode FULL), the metadata is an input of the capture: its
    tensors are copied to where the capture reads them, and a batch smaller than the capture is
    made to fit by the metadata's own `pad_to(num_tokens)`, which returns metadata for so many
    tokens whose added ones neither write nor are read. Metadata that does not fit, or whose plain
    values differ from those that the capture read, is run without the capture.
    """
    context = ForwardContext(attn_metadata, uniform_decode=uniform_decode, true_size=true_size)
    with pushed(context):
        yield context


class pushed:
    """`with pushed(context)`: makes it the current one. A class, for it is on the fast path."""

    __slots__ = ("context", "outer")

    def __init__(self, context: ForwardContext) -> None:
        self.context = context

    def __enter__(self) -> ForwardContext:
        self.outer = _here.context
        _here.context = self.context
        return self.context

    def __exit__(self, *error: object) -> None:
        _here.context = self.outer


@contextmanager
def warming_up() -> Iterator[Warming]:
    """Compiled calls inside the block are warm-ups: not counted as the program's, captured at once."""
    outer, _here.warming = _here.warming, Warming()
    try:
        yield _here.warming
    finally:
        _here.warming = outer
