"""vLLM's CUDA graphs: each capture with its time and its failure, and which calls were replays.

`CUDAGraphWrapper.__call__` itself is left alone, so that it stands in tracebacks as it does without
us. A capture is seen where it opens its pool and closes it; a replay where the wrapper looks up what
it captured.
"""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

from compdbg import probe
from compdbg.events import Capture
from compdbg.hooks import userline
from compdbg.hooks.base import Patches, contained, report_error
from compdbg.hooks.vllm_dispatch import graph_of, here, row, served
from compdbg.hooks.vllm_targets import CAPTURE_POOL, WRAPPER_MADE

HOOK = "vllm"


def install(patches: Patches) -> None:
    patches.wrap(WRAPPER_MADE, _with_counting_entries)
    patches.wrap(CAPTURE_POOL, _observed_pool)


def _with_counting_entries(original: Callable[..., None]) -> Callable[..., None]:
    """The first piece's wrapper stands for all: only its look-ups are counted."""

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        with contained(HOOK):
            if getattr(self.runnable, "is_first_graph", True):
                self.concrete_cudagraph_entries = _Entries(graph_of(self.runnable))

    return __init__


class _Entries(dict[Any, Any]):
    """What a wrapper captured, by batch; each call of the wrapper that captures or replays looks here."""

    def __init__(self, graph: str) -> None:
        self._graph = graph

    def __getitem__(self, batch: Any) -> Any:
        entry = super().__getitem__(batch)
        if entry.cudagraph is not None and probe.active():
            try:
                count = row(self._graph, batch.num_tokens)
                count.replays += 1
                served(count)
            except Exception as error:
                report_error(HOOK, error)
        return entry


def _observed_pool(original: Callable[..., Any]) -> Callable[..., Any]:
    def capture_pool(*args: Any, **kwargs: Any) -> Any:
        pool = original(*args, **kwargs)
        if probe.active():
            with contained(HOOK):
                caller = sys._getframe(1)
                if caller.f_code.co_name == "__call__" and "batch_descriptor" in caller.f_locals:
                    return _Capturing(pool, caller.f_locals["self"], caller.f_locals["batch_descriptor"])
        return pool

    return capture_pool


class _Capturing:
    """The pool that a capture runs in: its first moment and its last are those of the capture."""

    def __init__(self, pool: Any, wrapper: Any, batch: Any) -> None:
        self._pool = pool
        self._runnable = wrapper.runnable
        self._size = int(batch.num_tokens)
        self._outer = False
        self._started = 0.0

    def __enter__(self) -> Any:
        self._started = time.perf_counter()
        entered = self._pool.__enter__()
        self._outer, here.wrapped = here.wrapped, True
        return entered

    def __exit__(self, kind: Any, error: BaseException | None, step: Any) -> Any:
        here.wrapped = self._outer
        with contained(HOOK):
            self._record(error)
        return self._pool.__exit__(kind, error, step)

    def _record(self, error: BaseException | None) -> None:
        graph = graph_of(self._runnable)
        if error is None and getattr(self._runnable, "is_first_graph", True):
            count = row(graph, self._size)
            count.captures += 1
            served(count)
        probe.emit(
            Capture(
                graph=graph,
                piece=_piece_of(self._runnable),
                size=self._size,
                duration_ms=(time.perf_counter() - self._started) * 1e3,
                emulated=not sys.modules["torch"].cuda.is_available(),
                error=None if error is None else f"{type(error).__name__}: {error}"[:2000],
                where=None
                if error is None
                else userline.of_frames(traceback.extract_tb(error.__traceback__)),
            )
        )


def _piece_of(runnable: Any) -> str:
    name = getattr(runnable, "submod_name", None)
    if name is None:
        return "full"
    return str(name or f"piece {runnable.piecewise_compile_index}")
