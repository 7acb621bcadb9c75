"""`CUDAGraphWrapper`: a piece, or a whole graph, that is captured once a size and then replayed.

The forward context says how the pass runs and which size it has. A wrapper whose mode is not the
pass's calls through. At a size without a capture the first call runs as it is, which warms up;
the next one is captured and replayed once: every call is executed exactly once.

A replay reads its inputs where they were at capture. Results of splitting pieces may be new
tensors on each call, so they are copied to where the capture reads them. Any other input that is
somewhere else is a fault: it is recorded, and the call runs without its capture, so that the
result is right.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import torch

from compdbg.compiler.arena import Arena, copy_values
from compdbg.compiler.capture_report import CaptureReport
from compdbg.compiler.capture_rules import watching
from compdbg.compiler.captures import Captured, CaptureFailed, RecordedCall, capture
from compdbg.compiler.config import CompilationConfig, CUDAGraphMode
from compdbg.compiler.forward_context import ForwardContext, current


class CUDAGraphEntry:
    """One capture of one wrapper, and what its inputs were."""

    __slots__ = ("addresses", "captured", "checked", "landings", "outputs", "plain", "replay", "written")

    def __init__(self) -> None:
        self.captured: Captured | None = None
        self.replay: Callable[[], None] | None = None
        self.outputs: tuple[Any, ...] = ()
        self.checked: tuple[int, ...] = ()
        self.addresses: list[int] = []
        self.plain: list[tuple[int, Any]] = []
        self.landings: list[tuple[int, torch.Tensor, int]] = []
        self.written: frozenset[int] = frozenset()


class CUDAGraphWrapper:
    """`piece(*flat_args) -> outputs`, captured for the sizes that forward contexts name."""

    def __init__(
        self,
        runnable: Callable[..., Sequence[Any]],
        runtime_mode: CUDAGraphMode,
        *,
        graph: str,
        piece: str = "",
        from_splitting: Collection[int] = (),
        static: Collection[int] = (),
        names: Sequence[str] = (),
    ) -> None:
        self.runnable = runnable
        self.runtime_mode = runtime_mode
        self.graph = graph
        self.piece = piece
        self.names = names
        self.entries: dict[int, CUDAGraphEntry] = {}
        self._from_splitting = frozenset(from_splitting)
        self._unchecked = self._from_splitting | frozenset(static)
        self._written: frozenset[int] | None = None
        self._arena = Arena()
        self._warmed: set[int] = set()
        self._report = CaptureReport(graph, piece)

    def __call__(self, *args: Any) -> Sequence[Any]:
        context = current()
        if context is None or context.runtime_mode is not self.runtime_mode:
            return self.runnable(*args)
        entry = self.entries.get(context.key)
        if entry is None:
            return self._not_captured(context, args)
        if [args[i].data_ptr() for i in entry.checked] != entry.addresses:
            return self._moved(context, entry, args)
        for i, value in entry.plain:
            if args[i] != value:
                return self._other_value(context, i, value, args)
        for i, landing, address in entry.landings:
            if args[i].data_ptr() != address:
                copy_values(landing, args[i])
        entry.replay()  # type: ignore[misc]
        if entry.written:
            _copy_back(entry, args)
        return entry.outputs

    def clear_graphs(self) -> None:
        """Forget all captures; sizes are warmed up and captured again."""
        self.entries.clear()
        self._warmed.clear()
        self._arena = Arena()

    def _not_captured(self, context: ForwardContext, args: Sequence[Any]) -> Sequence[Any]:
        wanted = context.capturing
        if wanted is None:
            wanted = context.key in self._warmed
        self._warmed.add(context.key)
        if not wanted or context.failure is not None:
            return self._warm(args)
        return self._capture(context, args)

    def _warm(self, args: Sequence[Any]) -> Sequence[Any]:
        """Run as it is; once, see which results of splitting pieces this one writes to."""
        if self._written is not None or not self._from_splitting:
            return self.runnable(*args)
        tensors = {i: args[i] for i in self._from_splitting if isinstance(args[i], torch.Tensor)}
        before = {i: tensor.clone() for i, tensor in tensors.items()}
        outputs = self.runnable(*args)
        self._written = frozenset(i for i, old in before.items() if not _same(old, tensors[i]))
        return outputs

    def _capture(self, context: ForwardContext, args: Sequence[Any]) -> Sequence[Any]:
        started = time.perf_counter()
        entry = CUDAGraphEntry()
        given = self._landed(entry, args)
        failed: CaptureFailed | None = None
        try:
            captured = capture(self.runnable, given, self._arena)
        except CaptureFailed as failure:
            failed = failure
        if failed is not None:
            return self._without_capture(context, entry, failed, args, started)
        self._remember(context, entry, captured, given)
        self.entries[context.key] = entry
        spent = (time.perf_counter() - started) * 1e3
        mode = self.runtime_mode.name
        self._report.captured(_size(context), mode, spent, captured.bytes, captured.emulated)
        if entry.written:
            _copy_back(entry, args)
        return captured.take_results()

    def _without_capture(
        self,
        context: ForwardContext,
        entry: CUDAGraphEntry,
        failed: CaptureFailed,
        args: Sequence[Any],
        started: float,
    ) -> Sequence[Any]:
        """The results of a call whose capture failed, and what it was that can't be captured."""
        outputs, fault = failed.outputs, failed.fault
        if outputs is None:
            with watching() as faults:
                outputs = self.runnable(*args)
            if faults and fault.kind != "compile-inside":
                fault = faults[0]
        elif entry.written:
            _copy_back(entry, args)
        context.failure = fault
        spent = (time.perf_counter() - started) * 1e3
        emulated = failed.outputs is not None
        self._report.failed(_size(context), self.runtime_mode.name, spent, fault, emulated)
        return outputs

    def _landed(self, entry: CUDAGraphEntry, args: Sequence[Any]) -> list[Any]:
        """The arguments of the capture: results of splitting pieces from places of their own."""
        given = list(args)
        for i in sorted(self._from_splitting):
            if isinstance(args[i], torch.Tensor):
                landing = self._arena.take(("input", i), args[i])
                copy_values(landing, args[i])
                given[i] = landing
                entry.landings.append((i, landing, landing.data_ptr()))
        entry.written = self._written or frozenset()
        return given

    def _remember(
        self, context: ForwardContext, entry: CUDAGraphEntry, captured: Captured, given: Sequence[Any]
    ) -> None:
        tensors = [i for i, arg in enumerate(given) if isinstance(arg, torch.Tensor)]
        entry.captured = captured
        if isinstance(captured, RecordedCall):
            captured.changed = functools.partial(self._report.read_anew, _size(context))
        entry.replay = captured.replay
        entry.outputs = captured.outputs
        entry.checked = tuple(i for i in tensors if i not in self._unchecked)
        entry.addresses = [given[i].data_ptr() for i in entry.checked]
        entry.plain = [(i, arg) for i, arg in enumerate(given) if i not in tensors]

    def _moved(self, context: ForwardContext, entry: CUDAGraphEntry, args: Sequence[Any]) -> Sequence[Any]:
        addresses = [
            (i, was, args[i].data_ptr()) for i, was in zip(entry.checked, entry.addresses, strict=True)
        ]
        moved = ((self._name(i), was, now) for i, was, now in addresses if was != now)
        self._report.refused(_size(context), moved=moved)
        return self.runnable(*args)

    def _other_value(self, context: ForwardContext, i: int, was: Any, args: Sequence[Any]) -> Sequence[Any]:
        self._report.refused(_size(context), changed=[(self._name(i), repr(was), repr(args[i]))])
        return self.runnable(*args)

    def _name(self, i: int) -> str:
        return self.names[i] if i < len(self.names) else f"argument {i}"


def wrap_piece(
    runnable: Callable[..., Sequence[Any]],
    *,
    graph: str,
    piece: str,
    from_splitting: Iterable[int] = (),
    static: Iterable[int] = (),
    config: CompilationConfig,
) -> Callable[..., Sequence[Any]]:
    """A compiled piece as the configuration wants it called: captured piecewise, or as it is."""
    if not config.cudagraph_mode.has_piecewise():
        return runnable
    return CUDAGraphWrapper(
        runnable,
        CUDAGraphMode.PIECEWISE,
        graph=graph,
        piece=piece,
        from_splitting=frozenset(from_splitting),
        static=frozenset(static),
    )


def wrap_full(
    runnable: Callable[..., Sequence[Any]],
    *,
    graph: str,
    static: Iterable[int] = (),
    names: Sequence[str] = (),
) -> CUDAGraphWrapper:
    """A whole graph, splitting operators and all, to be captured as one."""
    return CUDAGraphWrapper(runnable, CUDAGraphMode.FULL, graph=graph, static=frozenset(static), names=names)


def _copy_back(entry: CUDAGraphEntry, args: Sequence[Any]) -> None:
    for i, landing, address in entry.landings:
        if i in entry.written and args[i].data_ptr() != address:
            copy_values(args[i], landing)


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return bool(torch.equal(torch.nan_to_num(one), torch.nan_to_num(other)))


def _size(context: ForwardContext) -> int:
    return context.batch.num_tokens if context.batch is not None else context.key
