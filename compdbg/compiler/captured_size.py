"""One captured size of one graph in one mode: warmed up, captured, then replayed.

All pieces of a size are captured in one call or none is: the memory of what a captured piece gives
is free for other captures as soon as that call is over.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from compdbg.compiler.arena import Arena
from compdbg.compiler.capture_report import CaptureReport
from compdbg.compiler.config import CUDAGraphMode
from compdbg.compiler.fixed_inputs import FixedInputs
from compdbg.compiler.forward_context import BatchDescriptor, ForwardContext, pushed
from compdbg.compiler.replay_plan import ReplayPlan, plan_replay
from compdbg.compiler.static_metadata import StaticMetadata

_keys = itertools.count()


class CapturedSize:
    """`run` until it is `captured`, then `replay`. `runnable` is called with inputs in place."""

    def __init__(
        self,
        runnable: Callable[..., Sequence[Any]],
        mode: CUDAGraphMode,
        size: int,
        uniform: bool,
        *,
        graph: str,
        arena: Arena,
    ) -> None:
        self.runnable = runnable
        self.size = size
        self.mode = mode.name
        self.graph = graph
        self.runs = 0
        self.captured = False
        self.failed = False
        self.refusal = "disagree"
        """Why the last call that was not replayed could not be."""
        self.context = ForwardContext(
            batch=BatchDescriptor(size, uniform),
            runtime_mode=mode,
            key=next(_keys),
            uniform_decode=uniform,
        )
        self._fixed: FixedInputs | None = None
        self._metadata = StaticMetadata(size, arena) if mode is CUDAGraphMode.FULL else None
        self._plan: ReplayPlan | None = None
        self._report = CaptureReport(graph)

    def run(
        self, flat: Sequence[Any], outer: ForwardContext | None, rows: int, *, capture: bool
    ) -> Sequence[Any]:
        """One call that is not a replay: as a warm-up, or captured."""
        context = self.context
        context.capturing, context.failure, context.true_size = capture, None, rows
        metadata = None if outer is None else outer.attn_metadata
        with self._with_metadata(metadata, capture), pushed(context):
            outputs = self.runnable(*flat)
        self.runs += 1
        self.failed = context.failure is not None
        self.captured = capture and not self.failed
        self._let_go()
        return outputs

    def hold(
        self, flat: Sequence[Any], fixed: Iterable[int], static: Collection[int], names: Sequence[str]
    ) -> None:
        """After the capture: the inputs `fixed` must be what and where they are now on every replay."""
        self._fixed = FixedInputs(flat, fixed, static, names)
        if self._metadata is None:
            self._plan = plan_replay(self.runnable, self.context.key)

    def replay(self, flat: list[Any], outer: ForwardContext | None, rows: int) -> Sequence[Any] | None:
        """The outputs where the capture leaves them; None if it can't stand for this call."""
        assert self._fixed is not None
        if not self._fixed.hold(flat):
            moved = list(self._fixed.moved(flat))
            self.refusal = "moved" if moved else "changed"
            self._report.refused(self.size, moved, self._fixed.changed(flat), static=self._fixed.static)
            return None
        context = self.context
        context.true_size = rows
        metadata = None if outer is None else outer.attn_metadata
        if self._metadata is None:
            context.attn_metadata = metadata
        else:
            mismatch = self._metadata.update(metadata)
            if mismatch is not None:
                self.refusal = mismatch.kind
                self._report.metadata_refused(self.size, mismatch)
                return None
        with pushed(context):
            outputs = self.runnable(*flat) if self._plan is None else self._plan.run(flat)
        self._let_go()
        return outputs

    @contextmanager
    def seen_again(self, outer: ForwardContext | None) -> Iterator[None]:
        """Inside, `context` is as in the last replay: a pass may be looked at once more."""
        if self._metadata is None:
            self.context.attn_metadata = None if outer is None else outer.attn_metadata
        try:
            yield
        finally:
            self._let_go()

    def _let_go(self) -> None:
        """Keep nothing of the caller's alive."""
        if self._metadata is None:
            self.context.attn_metadata = None

    def _with_metadata(self, metadata: Any, capture: bool) -> AbstractContextManager[None]:
        if self._metadata is None:
            self.context.attn_metadata = metadata
            return nullcontext()
        return self._metadata.given(metadata, self.context, noting=capture)
