"""How vLLM serves each call: the size it is padded to, the range compiled for it, its CUDA graph.

The first compiled piece of a graph stands for all of it: one call of the model is one call of that
piece, or one capture or replay of its wrapper. In the steady state a call costs a few dictionary
look-ups; tallies are written at each power of two, and at the end.
"""

from __future__ import annotations

import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

from compdbg import probe
from compdbg.events import Capture, Dispatch
from compdbg.hooks import current, userline
from compdbg.hooks.base import Patches, contained
from compdbg.hooks.vllm_pieces import range_text
from compdbg.hooks.vllm_targets import CAPTURE_CALL, DISPATCH, PIECE_MADE, PIECE_RANGE

HOOK = "vllm"
CONTEXT = "vllm.forward_context"

FULL = "full"
"""The graph of a wrapper around the whole model."""


class _Here(threading.local):
    asked: int | None = None
    """Tokens of the batch last dispatched, until a call takes it up."""
    padded: int | None = None
    wrapped = False
    """Inside a capture or replay, which is what is counted, not the piece that it runs."""


_here = _Here()


class _Row:
    """The calls of one size of one graph."""

    __slots__ = ("captures", "compiled_as", "eager", "graph", "padded_to", "replays", "size")

    def __init__(self, graph: str, size: int, padded_to: int | None) -> None:
        self.graph = graph
        self.size = size
        self.padded_to = padded_to
        self.compiled_as: str | None = None
        self.captures = self.replays = self.eager = 0


_rows: dict[tuple[str, int, int | None], _Row] = {}
_graphs: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()


def install_backend(patches: Patches) -> None:
    patches.wrap(PIECE_MADE, _remember_graph)
    patches.wrap(PIECE_RANGE, _counted_range)


def install_wrapper(patches: Patches) -> None:
    patches.wrap(CAPTURE_CALL, _recorded_wrapper)


def install_dispatcher(patches: Patches) -> None:
    patches.wrap(DISPATCH, _remember_padding)


def _remember_graph(original: Callable[..., Any]) -> Callable[..., Any]:
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        with contained(HOOK):
            name = current.graph_name()
            loaded_for = getattr(kwargs.get("vllm_backend"), "prefix", name)
            _graphs[self] = str(loaded_for) if name == "?" else name
        original(self, *args, **kwargs)

    return __init__


def _remember_padding(original: Callable[..., Any]) -> Callable[..., Any]:
    def dispatch(self: Any, num_tokens: int, *args: Any, **kwargs: Any) -> Any:
        result = original(self, num_tokens, *args, **kwargs)
        _here.asked, _here.padded = num_tokens, result[1].num_tokens
        return result

    return dispatch


def _counted_range(original: Callable[..., Any]) -> Callable[..., Any]:
    def _find_range_for_shape(self: Any, runtime_shape: Any, *args: Any, **kwargs: Any) -> Any:
        entry = original(self, runtime_shape, *args, **kwargs)
        if self.is_first_graph and probe.active():
            row = _row(_graphs.get(self, "?"), runtime_shape)
            if row.compiled_as is None and entry is not None:
                row.compiled_as = range_text(entry.compile_range)
            if not _here.wrapped:
                row.eager += 1
                _served(row)
        return entry

    return _find_range_for_shape


def _row(graph: str, size: int) -> _Row:
    """The tally of the batch that is being served: by its own size, where padding made it `size`."""
    padded_to = None
    if _here.padded == size and _here.asked is not None and _here.asked != size:
        size, padded_to = _here.asked, size
    key = (graph, size, padded_to)
    row = _rows.get(key)
    if row is None:
        row = _rows[key] = _Row(graph, int(size), padded_to)
    return row


def _served(row: _Row) -> None:
    """The batch has been counted; its tally is written at each power of two."""
    _here.asked = None
    calls = row.captures + row.replays + row.eager
    if calls & (calls - 1) == 0:
        _write(row)


def _write(row: _Row) -> None:
    probe.emit(
        Dispatch(
            graph=row.graph,
            size=row.size,
            compiled_as=row.compiled_as,
            padded_to=row.padded_to,
            replays=row.replays,
            captures=row.captures,
            eager_calls=row.eager,
        )
    )


def _flush() -> None:
    for row in _rows.values():
        _write(row)
    _rows.clear()


def _recorded_wrapper(original: Callable[..., Any]) -> Callable[..., Any]:
    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        batch = _batch_for(self) if probe.active() else None
        if batch is None:
            return original(self, *args, **kwargs)
        entry = self.concrete_cudagraph_entries.get(batch)
        if entry is None or entry.cudagraph is None:
            return _captured(original, self, batch, args, kwargs)
        outer, _here.wrapped = _here.wrapped, True
        try:
            result = original(self, *args, **kwargs)
        finally:
            _here.wrapped = outer
        if _stands_for_all(self):
            row = _row(_graph_of(self), batch.num_tokens)
            row.replays += 1
            _served(row)
        return result

    return __call__


def _batch_for(wrapper: Any) -> Any:
    """The batch that this wrapper will capture or replay; None where it only passes the call on."""
    forward = sys.modules[CONTEXT]
    if not forward.is_forward_context_available():
        return None
    context = forward.get_forward_context()
    return context.batch_descriptor if context.cudagraph_runtime_mode == wrapper.runtime_mode else None


def _captured(original: Callable[..., Any], wrapper: Any, batch: Any, args: Any, kwargs: Any) -> Any:
    outer, _here.wrapped = _here.wrapped, True
    started = time.perf_counter()
    try:
        result = original(wrapper, *args, **kwargs)
        if _stands_for_all(wrapper):
            row = _row(_graph_of(wrapper), batch.num_tokens)
            row.captures += 1
            _served(row)
    except BaseException as error:
        _record_capture(wrapper, batch, started, error)
        raise
    finally:
        _here.wrapped = outer
    _record_capture(wrapper, batch, started, None)
    return result


def _record_capture(wrapper: Any, batch: Any, started: float, error: BaseException | None) -> None:
    with contained(HOOK):
        probe.emit(
            Capture(
                graph=_graph_of(wrapper),
                piece=_piece_of(wrapper),
                size=batch.num_tokens,
                duration_ms=(time.perf_counter() - started) * 1e3,
                emulated=not sys.modules["torch"].cuda.is_available(),
                error=None if error is None else f"{type(error).__name__}: {error}"[:2000],
                where=None if error is None else _where_of(error),
            )
        )


def _where_of(error: BaseException) -> Any:
    import traceback

    return userline.of_frames(traceback.extract_tb(error.__traceback__))


def _stands_for_all(wrapper: Any) -> bool:
    return bool(getattr(wrapper.runnable, "is_first_graph", True))


def _graph_of(wrapper: Any) -> str:
    try:
        return _graphs.get(wrapper.runnable, FULL)
    except TypeError:
        return FULL


def _piece_of(wrapper: Any) -> str:
    runnable = wrapper.runnable
    name = getattr(runnable, "submod_name", None)
    if name is None:
        return FULL
    return str(name or f"piece {runnable.piecewise_compile_index}")


probe.at_end(_flush)
probe.at_fork(_rows.clear)
