"""One capture: a CUDA graph on a GPU; on a CPU a recorded call that keeps to the same rules.

The CPU's stand-in reads its inputs where they were at capture and writes its outputs to fixed
places, so that padding, dispatch and addresses can be debugged without a GPU. Operations that a
CUDA graph can't hold are caught there too.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import torch

from compdbg import probe
from compdbg.compiler.arena import Arena, copy_values, storage_address
from compdbg.compiler.capture_rules import Fault, fault_of, noting, watching
from compdbg.compiler.replay_watch import Changed, OperatorNotes, is_sampled

Runnable = Callable[..., Sequence[Any]]


class Captured(Protocol):
    """What a capture gives: the outputs at their fixed addresses, and how to run it again."""

    bytes: int | None
    emulated: bool

    @property
    def outputs(self) -> tuple[Any, ...]:
        """Where each replay leaves its results."""

    @property
    def replay(self) -> Callable[[], None]:
        """Runs it again, without arguments."""

    def take_results(self) -> Sequence[Any]:
        """The results of the call that was captured; owned, where the memory must not be reused yet."""


class CaptureFailed(Exception):
    """The capture is not valid. `outputs` are there where the call itself has run all the same."""

    def __init__(self, fault: Fault, outputs: Sequence[Any] | None = None) -> None:
        super().__init__(fault.message)
        self.fault = fault
        self.outputs = outputs


def device_of(args: Sequence[Any]) -> torch.device:
    """The device that a call works on: that of its first tensor that is on a GPU, else the CPU."""
    for arg in args:
        if isinstance(arg, torch.Tensor) and arg.device.type == "cuda":
            return arg.device
    return torch.device("cpu")


def capture(runnable: Runnable, args: Sequence[Any], arena: Arena) -> Captured:
    """Capture one call, which thereby runs exactly once: the outputs hold its results.

    Raises:
        CaptureFailed: it does something that a capture can't hold.
    """
    device = device_of(args)
    if device.type == "cuda":
        captured: Captured = CapturedGraph(runnable, args, device)
        captured.replay()
        return captured
    return RecordedCall(runnable, args, arena)


class RecordedCall:
    """A capture on the CPU: the call's arguments are kept, its outputs are copied to fixed places."""

    emulated = True
    bytes: int | None

    def __init__(self, runnable: Runnable, args: Sequence[Any], arena: Arena) -> None:
        self.runnable = runnable
        self.args = tuple(args)
        self.changed: Changed | None = None
        """Told of what operators read now as another value than at capture."""
        self._replays = 0
        notes = OperatorNotes() if probe.active() else None
        with watching(notes=notes) as faults:
            produced = runnable(*args)
        if faults:
            raise CaptureFailed(faults[0], produced)
        inputs = {storage_address(arg) for arg in args if isinstance(arg, torch.Tensor)}
        self.outputs = tuple(_fixed(i, out, inputs, arena) for i, out in enumerate(produced))
        self._copies = [i for i, out in enumerate(self.outputs) if out is not produced[i]]
        self.bytes = sum(self.outputs[i].nbytes for i in self._copies)
        self._take_in(produced)
        self._steps = None if notes is None else notes.kept()

    def replay(self) -> None:
        self._replays += 1
        if self._steps is not None and probe.active() and is_sampled(self._replays):
            with noting(OperatorNotes(self._steps, self.changed)):
                produced = self.runnable(*self.args)
        else:
            produced = self.runnable(*self.args)
        self._take_in(produced)

    def take_results(self) -> Sequence[Any]:
        return self.outputs

    def _take_in(self, produced: Sequence[Any]) -> None:
        for i in self._copies:
            copy_values(self.outputs[i], produced[i])


def _fixed(index: int, output: Any, inputs: set[int], arena: Arena) -> Any:
    """Where an output stands after each replay; one that is (a view of) an input stays what it is."""
    if not isinstance(output, torch.Tensor) or storage_address(output) in inputs:
        return output
    return arena.take(index, output)


class CapturedGraph:
    """A CUDA graph. Its outputs are weak: their memory goes back to the pool for other captures."""

    emulated = False
    bytes: int | None

    def __init__(self, runnable: Runnable, args: Sequence[Any], device: torch.device) -> None:
        before = torch.cuda.memory_reserved(device) if probe.active() else None
        graph = torch.cuda.CUDAGraph()
        stream = _stream(device)
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream), watching(operations=False) as faults:
            try:
                graph.capture_begin(pool=pool_of(device), capture_error_mode="thread_local")
                produced = runnable(*args)
                graph.capture_end()
            except Exception as error:
                _abandon(graph, device)
                raise CaptureFailed(faults[0] if faults else fault_of(error)) from error
        torch.cuda.current_stream(device).wait_stream(stream)
        self.graph = graph
        self.replay = _bare_replay(graph)
        self.outputs = tuple(weak(output) for output in produced)
        self.bytes = None if before is None else torch.cuda.memory_reserved(device) - before
        self._owned: Sequence[Any] | None = produced

    def take_results(self) -> Sequence[Any]:
        results, self._owned = self._owned, None
        assert results is not None, "the results are given once"
        return results


def _bare_replay(graph: Any) -> Callable[[], None]:
    """The replay of the C++ base: the Python method only adds what an option of ours switches off."""
    return super(torch.cuda.CUDAGraph, graph).replay  # type: ignore[no-any-return]


def _abandon(graph: Any, device: torch.device) -> None:
    """End a capture that has failed, so that the stream and random numbers can be used again.

    torch leaves its allocators recording to the pool when a capture ends in an error, and refuses
    the next capture to that pool; and its random generator takes the capture for still under way
    until another one succeeds. A new pool, which begins with an empty capture, mends both.
    """
    with contextlib.suppress(Exception):
        graph.capture_end()
    with contextlib.suppress(Exception):
        graph.reset()
    _pools.pop(device, None)
    with contextlib.suppress(Exception):
        pool_of(device)


def weak(value: Any) -> Any:
    """A tensor at the same address that does not own its GPU memory; other values as they are."""
    if type(value) is not torch.Tensor or not value.is_cuda or value.layout is not torch.strided:
        return value
    storage = value.untyped_storage()
    with torch.inference_mode(False):
        unowned = torch._C._construct_storage_from_data_pointer(
            storage.data_ptr(), value.device, storage.nbytes()
        )
        empty = torch.empty(0, dtype=value.dtype, device=value.device)
        return empty.set_(unowned, value.storage_offset(), value.size(), value.stride())


_pools: dict[torch.device, tuple[Any, Any]] = {}
"""Of each device the pool's handle, and a graph that keeps the pool alive."""
_streams: dict[torch.device, Any] = {}


def pool_of(device: torch.device) -> Any:
    """The one memory pool of a device: captures share it, since only one runs at a time.

    A pool whose last graph is gone can't be captured to again, so an empty graph of ours holds it.
    """
    if device not in _pools:
        handle, keeper = torch.cuda.graph_pool_handle(), torch.cuda.CUDAGraph()
        with torch.cuda.stream(_stream(device)):
            keeper.capture_begin(pool=handle, capture_error_mode="thread_local")
            torch.zeros(1, device=device)
            keeper.capture_end()
        _pools[device] = handle, keeper
    return _pools[device][0]


def _stream(device: torch.device) -> Any:
    if device not in _streams:
        _streams[device] = torch.cuda.Stream(device)
    return _streams[device]


@contextlib.contextmanager
def many_captures() -> Iterator[None]:
    """Collect garbage once before many captures and not again until they are done.

    Each collection walks every object of torch and the model: at 50 sizes of 17 pieces it would
    take longer than the captures themselves.
    """
    was_enabled, freezes = gc.isenabled(), gc.get_freeze_count() == 0
    gc.collect()
    gc.disable()
    if freezes:
        gc.freeze()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
    try:
        yield
    finally:
        if freezes:
            gc.unfreeze()
        if was_enabled:
            gc.enable()
