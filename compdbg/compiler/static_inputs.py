"""`SizedCall`: a compiled graph called by batch size. Pads up to a captured size, keeps inputs in place.

It stands where Dynamo's code hands over flat graph inputs. A call with n rows runs in the capture
of the smallest captured size that holds them: rows are copied into static buffers, added rows are
zero, outputs are cut back to n rows. What can't be captured is called as it is: above the largest
size, where gradients are wanted, where sizes disagree, inputs share memory that the graph writes to, or
addresses have changed.
"""

from __future__ import annotations

import bisect
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from compdbg.compiler import padding_check
from compdbg.compiler.arena import Arena
from compdbg.compiler.captured_size import CapturedSize
from compdbg.compiler.config import CompilationConfig, CUDAGraphMode
from compdbg.compiler.cuda_graph import wrap_full
from compdbg.compiler.dynamic_spec import DynamicSpec
from compdbg.compiler.forward_context import ForwardContext, Warming, current, warming
from compdbg.compiler.leak_search import LeakSearch
from compdbg.compiler.pieces import Split
from compdbg.compiler.placement import PassedInputs, Route, StreamOrder
from compdbg.compiler.ranges import compile_ranges
from compdbg.compiler.static_buffers import StaticInput, Unpaddable
from compdbg.compiler.tally import Tally


class ServedAs(NamedTuple):
    """The rows of a call, the captured size that it is padded to, and the mode of its capture."""

    rows: int
    padded_to: int | None
    mode: str


class SizedCall:
    """`call(*graph_inputs) -> graph outputs`, for one graph that Dynamo has traced.

    `compiled` may have `graph`, the split graph, and `pieces`, what is called for each of its
    modules: from these a captured size gets a replay plan. `split` is for finding what mixes rows.
    """

    def __init__(
        self,
        compiled: Callable[..., Sequence[Any]],
        spec: DynamicSpec,
        config: CompilationConfig,
        name: str,
        split: Split | None = None,
    ) -> None:
        self.compiled = compiled
        self.spec = spec
        self.config = config
        self.name = name
        mode = config.cudagraph_mode
        captures = mode is not CUDAGraphMode.NONE and spec.size is not None
        self.sizes = sorted(config.cudagraph_capture_sizes or ()) if captures else []
        self.modes = {True: mode.decode_mode(), False: mode.mixed_mode()}
        self._checks_padding = padding_check.wanted()
        largest = self.sizes[-1] if self.sizes else None
        self.tally = Tally(name, largest, checks_padding=self._checks_padding)
        self._full = wrap_full(compiled, graph=name, static=spec.static, names=spec.input_names)
        self._arena = Arena()
        self._metadata_arena = Arena()
        self._buffers: dict[int, StaticInput] = {}
        self._passed = PassedInputs(spec)
        self._streams = StreamOrder()
        self._routes: dict[tuple[int, bool], Route] = {}
        self._slots: dict[tuple[CUDAGraphMode, int, bool], CapturedSize] = {}
        self._lock = threading.RLock()
        self._search = LeakSearch(split) if split is not None and self._checks_padding else None

    def __call__(self, *inputs: Any) -> Sequence[Any]:
        size = self.spec.size
        if size is None:
            return self.compiled(*inputs)
        n: int = inputs[size.index] if size.dim is None else inputs[size.index].shape[size.dim]
        outer = current()
        with self._lock:
            route = self._routes.get((n, outer is not None and outer.uniform_decode))
            if route is None:
                route = self._find_route(n, outer is not None and outer.uniform_decode)
            warm = warming()
            if warm is not None:
                warm.enlist(self)
            if route.slot is None:
                return self._direct(route, inputs, warm, route.why)
            if torch.is_grad_enabled() and _wants_gradients(inputs):
                return self._direct(route, inputs, warm, "gradients")
            return self._serve(route, route.slot, inputs, outer, warm)

    def served(self, inputs: Sequence[Any]) -> ServedAs | None:
        """How a call with these inputs was served last; None for a graph without a batch size."""
        size = self.spec.size
        if size is None:
            return None
        n: int = inputs[size.index] if size.dim is None else inputs[size.index].shape[size.dim]
        outer = current()
        route = self._routes.get((n, outer is not None and outer.uniform_decode))
        slot = None if route is None else route.slot
        if slot is None:
            return ServedAs(n, None, "")
        return ServedAs(n, slot.size, slot.mode if slot.captured else "")

    def clear_graphs(self) -> None:
        """Drop every capture; sizes are warmed up and captured again."""
        self._routes.clear()
        self._slots.clear()
        self._full.clear_graphs()
        for piece in getattr(self.compiled, "pieces", {}).values():
            if hasattr(piece, "clear_graphs"):
                piece.clear_graphs()

    def _find_route(self, n: int, uniform: bool) -> Route:
        found = self._slot_for(n, uniform)
        slot, why = (None, found) if isinstance(found, str) else (found, "")
        size = n if slot is None else slot.size
        route = Route(self.tally.of(n, _compiled_as(self.config, size)), n, slot, self.spec, why)
        self._routes[n, uniform] = route
        return route

    def _slot_for(self, n: int, uniform: bool) -> CapturedSize | str:
        """The capture of the smallest size that holds `n` rows; or why there can't be one."""
        mode = self.modes[uniform]
        at = bisect.bisect_left(self.sizes, n)
        if mode is CUDAGraphMode.NONE:
            return "mode"
        if at == len(self.sizes) or n == 0:
            return "too-large" if n else "empty"
        size = self.sizes[at]
        if size != n and not self.spec.paddable:
            return "unpaddable"
        key = (mode, size, uniform and mode is CUDAGraphMode.FULL)
        if key not in self._slots:
            runnable = self._full if mode is CUDAGraphMode.FULL else self.compiled
            self._slots[key] = CapturedSize(
                runnable, mode, size, uniform, graph=self.name, arena=self._metadata_arena
            )
        slot = self._slots[key]
        return "failed" if slot.failed else slot

    def _direct(self, route: Route, inputs: Sequence[Any], warm: Warming | None, why: str) -> Sequence[Any]:
        """Call without a capture and without padding."""
        if warm is None:
            route.served.eager_call(why)
        return self.compiled(*inputs)

    def _serve(
        self,
        route: Route,
        slot: CapturedSize,
        inputs: Sequence[Any],
        outer: ForwardContext | None,
        warm: Warming | None,
    ) -> Sequence[Any]:
        if not slot.captured and self._passed.any_fresh(inputs):
            self.clear_graphs()
            fresh = self._find_route(route.rows, outer is not None and outer.uniform_decode)
            if fresh.slot is None:
                return self._direct(fresh, inputs, warm, fresh.why)
            route, slot = fresh, fresh.slot
        if route.placements is None and not self._make_room(route, slot, inputs):
            return self._direct(route, inputs, warm, route.why)
        if route.overlaps(inputs):
            return self._direct(route, inputs, warm, "overlap")
        self._streams.follow(inputs)
        if slot.captured:
            produced = self._replay(route, slot, inputs, outer)
            if produced is not None and warm is None:
                route.served.replay(slot.mode)
        else:
            produced = self._run(route, slot, inputs, outer, warm)
        if produced is None:
            return self._direct(route, inputs, warm, slot.refusal)
        return route.finish(produced, inputs, owned=not slot.captured, copy=self.config.copy_outputs)

    def _replay(
        self, route: Route, slot: CapturedSize, inputs: Sequence[Any], outer: ForwardContext | None
    ) -> Sequence[Any] | None:
        if self._checks_padding and route.rows < slot.size:
            produced = padding_check.replay_checked(route, slot, self.spec, inputs, outer, self._search)
            if produced is not None:
                route.served.padding_checked()
            return produced
        flat = route.place(inputs)
        slot.refusal = "disagree"
        return None if flat is None else slot.replay(flat, outer, route.rows)

    def _run(
        self,
        route: Route,
        slot: CapturedSize,
        inputs: Sequence[Any],
        outer: ForwardContext | None,
        warm: Warming | None,
    ) -> Sequence[Any] | None:
        """A call before there is a capture, or the one that is captured; None if it can't be placed."""
        flat = route.place(inputs)
        if flat is None:
            slot.refusal = "disagree"
            return None
        enough = slot.runs >= max(1, self.config.cudagraph_num_of_warmups)
        capture = enough if warm is None else warm.capture
        produced = slot.run(flat, outer, route.rows, capture=capture)
        if slot.captured:
            placed = {index for index, _ in self._passed.copied()}
            fixed = [i for i in range(len(flat)) if i not in placed]
            slot.hold(flat, fixed, self.spec.static, self.spec.input_names)
            route.served.captures += 1
            if warm is None:
                route.served.replay(slot.mode)
        elif warm is None and slot.failed:
            route.served.eager_call("failed")
        elif warm is None:
            route.served.warm_up()
        if slot.failed:
            self._routes.clear()
        return produced

    def _make_room(self, route: Route, slot: CapturedSize, inputs: Sequence[Any]) -> bool:
        """Static buffers for the inputs that are copied; False where an input's layout allows none."""
        largest = self.sizes[-1]
        try:
            for index, dims in self._passed.copied():
                if index not in self._buffers:
                    buffer = StaticInput(index, dims, inputs[index], route.rows, self._arena)
                    self._buffers[index] = buffer
                    buffer.view(largest)
        except (Unpaddable, AttributeError):
            route.slot, route.why = None, "layout"
            return False
        buffers = [self._buffers[index] for index, _ in self._passed.copied()]
        route.make_placements(buffers, slot.size)
        return True


def _wants_gradients(inputs: Sequence[Any]) -> bool:
    return any(isinstance(value, torch.Tensor) and value.requires_grad for value in inputs)


def _compiled_as(config: CompilationConfig, n: int) -> str | None:
    """The size or range that `n` rows are compiled as."""
    return next((str(each) for each in compile_ranges(config) if n in each), None)
