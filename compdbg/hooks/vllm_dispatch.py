"""How vLLM serves each call: the size it is padded to, and the range that was compiled for it.

The first compiled piece of a graph stands for all of it: one call of the model is one call of that
piece, or one capture or replay of its wrapper. In the steady state a call costs a few dictionary
look-ups; tallies are written at each power of two, and at the end.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

from compdbg import probe
from compdbg.events import Dispatch
from compdbg.hooks import current
from compdbg.hooks.base import Patches, contained
from compdbg.hooks.vllm_pieces import range_text
from compdbg.hooks.vllm_targets import DISPATCH, PIECE_MADE, PIECE_RANGE

HOOK = "vllm"
FULL = "full"
"""The graph of a wrapper around the whole model."""


class _Here(threading.local):
    asked: int | None = None
    """Tokens of the batch last dispatched, until a call takes it up."""
    padded: int | None = None
    wrapped = False
    """Inside a capture, which is what is counted, not the piece that it runs."""


here = _Here()


class Row:
    """The calls of one size of one graph."""

    __slots__ = ("captures", "compiled_as", "eager", "graph", "padded_to", "replays", "size")

    def __init__(self, graph: str, size: int, padded_to: int | None) -> None:
        self.graph = graph
        self.size = size
        self.padded_to = padded_to
        self.compiled_as: str | None = None
        self.captures = self.replays = self.eager = 0


_rows: dict[tuple[str, int, int | None], Row] = {}
_graphs: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()


def install_pieces(patches: Patches) -> None:
    patches.wrap(PIECE_MADE, _remember_graph)
    patches.wrap(PIECE_RANGE, _counted_range)


def install_dispatcher(patches: Patches) -> None:
    patches.wrap(DISPATCH, _remember_padding)


def graph_of(runnable: Any) -> str:
    """The graph that a piece belongs to; of what is no piece, all of the model."""
    try:
        return _graphs.get(runnable, FULL)
    except TypeError:
        return FULL


def row(graph: str, size: int) -> Row:
    """The tally of the batch that is being served: by its own size, where padding made it `size`."""
    padded_to = None
    if here.padded == size and here.asked is not None and here.asked != size:
        size, padded_to = here.asked, size
    key = (graph, size, padded_to)
    found = _rows.get(key)
    if found is None:
        found = _rows[key] = Row(graph, int(size), padded_to)
    return found


def served(tally: Row) -> None:
    """The batch has been counted; its tally is written at each power of two."""
    here.asked = None
    calls = tally.captures + tally.replays + tally.eager
    if calls & (calls - 1) == 0:
        _write(tally)


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
        here.asked, here.padded = num_tokens, result[1].num_tokens
        return result

    return dispatch


def _counted_range(original: Callable[..., Any]) -> Callable[..., Any]:
    def _find_range_for_shape(self: Any, runtime_shape: Any, *args: Any, **kwargs: Any) -> Any:
        entry = original(self, runtime_shape, *args, **kwargs)
        if self.is_first_graph and probe.active():
            tally = row(_graphs.get(self, "?"), runtime_shape)
            if tally.compiled_as is None and entry is not None:
                tally.compiled_as = range_text(entry.compile_range)
            if not here.wrapped:
                tally.eager += 1
                served(tally)
        return entry

    return _find_range_for_shape


def _write(tally: Row) -> None:
    mode = "FULL" if tally.graph == FULL else "PIECEWISE"
    probe.emit(
        Dispatch(
            graph=tally.graph,
            size=tally.size,
            compiled_as=tally.compiled_as,
            padded_to=tally.padded_to,
            replays=tally.replays,
            replays_by_mode={mode: tally.replays} if tally.replays else {},
            captures=tally.captures,
            eager_calls=tally.eager,
        )
    )


def _flush() -> None:
    for tally in _rows.values():
        _write(tally)
    _rows.clear()


probe.at_end(_flush)
probe.at_fork(_rows.clear)
