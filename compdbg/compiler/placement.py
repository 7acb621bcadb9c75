"""Getting a call's inputs to where its capture reads them, and its results back to the caller."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch

from compdbg.compiler.arena import Copies, copy_values, storage_address
from compdbg.compiler.captured_size import CapturedSize
from compdbg.compiler.dynamic_spec import BatchDim, DynamicSpec
from compdbg.compiler.overlap import overlap
from compdbg.compiler.static_buffers import Integers, StaticInput
from compdbg.compiler.tally import Served


class Placement(NamedTuple):
    """One input that is copied: what the compiled code sees, and the part of it that holds true rows."""

    buffer: StaticInput
    at: int
    view: torch.Tensor
    rows: torch.Tensor


class Route:
    """How calls of one batch size are served: in the captured size `slot`, or (None) as they are."""

    def __init__(
        self, served: Served, rows: int, slot: CapturedSize | None, spec: DynamicSpec, why: str = ""
    ) -> None:
        self.served = served
        self.served.why = spec.why
        self.rows = rows
        self.slot = slot
        self.why = why
        """Why there is no slot: a reason of `Dispatch.uncaptured`."""
        self.placements: list[Placement] | None = None
        self._spec = spec
        self._padded = rows
        self._storages: set[int] = set()
        self._written: frozenset[int] = frozenset()

    def make_placements(self, buffers: Iterable[StaticInput], padded: int) -> None:
        self._padded = padded
        self.placements = []
        for buffer in buffers:
            view = buffer.view(padded)
            self.placements.append(Placement(buffer, buffer.index, view, buffer.rows(view, self.rows)))
        self._copy_rows = Copies([p.rows for p in self.placements])
        self._written = self._spec.mutated & {p.at for p in self.placements}
        self._storages = {storage_address(p.view) for p in self.placements}
        self._sizes = [(s.index, s.multiple * self.rows, s.multiple * padded) for s in self._spec.size_inputs]
        if self.served.padded_to is None:
            self.served.padded_to = padded

    def overlaps(self, inputs: Sequence[Any]) -> bool:
        """Whether another copied input would show what the graph writes to one: buffers don't."""
        if not self._written:
            return False
        given = {p.at: inputs[p.at] for p in self.placements or ()}
        tensors = {at: value for at, value in given.items() if isinstance(value, torch.Tensor)}
        return any(
            at != other and overlap(tensors[at], tensors[other])
            for at in tensors.keys() & self._written
            for other in tensors
        )

    def place(self, inputs: Sequence[Any], *, poisoned: Integers | None = None) -> list[Any] | None:
        """Inputs with the copied ones in their buffers; None where one has another form or size."""
        assert self.placements is not None
        flat = list(inputs)
        for index, rows, padded in self._sizes:
            if inputs[index] != rows:
                return None
            flat[index] = padded
        for buffer, at, view, rows in self.placements:
            given = inputs[at]
            if not isinstance(given, torch.Tensor):
                return None
            if given.shape != rows.shape or given.dtype is not buffer.dtype or given.device != buffer.device:
                return None
            flat[at] = view
        self._copy_rows([inputs[placement.at] for placement in self.placements])
        if self.rows != self._padded:
            for buffer, _, view, _ in self.placements:
                if poisoned is not None:
                    buffer.poison_rest(view, self.rows, self._padded, poisoned)
                else:
                    buffer.clear_rest(view, self.rows, self._padded)
        else:
            for buffer, *_ in self.placements:
                buffer.full(self._padded)
        return flat

    def finish(self, produced: Sequence[Any], inputs: Sequence[Any], *, owned: bool, copy: bool) -> list[Any]:
        """Outputs cut to the true rows, as the caller's own; written inputs copied back."""
        outputs = self.cut(produced)
        if copy:
            for i, value in enumerate(outputs):
                if isinstance(value, torch.Tensor) and not (owned and self._is_own(value)):
                    outputs[i] = value.clone()
        for buffer, at, _, rows in self.placements or ():
            if at in self._spec.mutated:
                buffer.full(self._padded)
                copy_values(inputs[at], rows)
        return outputs

    def cut(self, produced: Sequence[Any]) -> list[Any]:
        """Outputs without the rows that padding added."""
        dims = self._spec.outputs
        return [self._cut(value, dims[i] if i < len(dims) else ()) for i, value in enumerate(produced)]

    def _cut(self, value: Any, dims: tuple[BatchDim, ...]) -> Any:
        if self.rows == self._padded or not dims:
            return value
        if not isinstance(value, torch.Tensor):
            return dims[0].multiple * self.rows
        for batch in dims:
            value = value.narrow(batch.dim, 0, batch.multiple * self.rows)
        return value

    def _is_own(self, value: torch.Tensor) -> bool:
        return storage_address(value) not in self._storages


class PassedInputs:
    """Which inputs are copied into buffers: those with a batch dimension, and others found to be fresh.

    A tensor without a batch dimension that is not the model's own may be one that lives on (a
    cache), or made anew for each call (a mask). Addresses over the calls before a capture tell:
    a fresh one gets a buffer too. What was seen is kept alive, so that an address is not used again.
    """

    def __init__(self, spec: DynamicSpec) -> None:
        self._dynamic = [(entry.index, entry.dims) for entry in spec.inputs]
        self._fresh: list[int] = []
        self._skip = spec.static | {entry.index for entry in spec.inputs}
        self._seen: dict[int, torch.Tensor] = {}

    def copied(self) -> list[tuple[int, tuple[BatchDim, ...]]]:
        return self._dynamic + [(index, ()) for index in self._fresh]

    def any_fresh(self, inputs: Sequence[Any]) -> bool:
        """Look at one more call before a capture; whether another input turned out to be fresh."""
        found = False
        for i, value in enumerate(inputs):
            if i in self._skip or not isinstance(value, torch.Tensor):
                continue
            before = self._seen.setdefault(i, value)
            if before.data_ptr() != value.data_ptr():
                self._fresh.append(i)
                self._skip = self._skip | {i}
                del self._seen[i]
                found = True
        return found


class StreamOrder:
    """Static buffers are shared by all calls: one on another CUDA stream waits for the one before."""

    def __init__(self) -> None:
        self._raw: int | None = None
        self._stream: Any = None
        self._device: torch.device | None = None

    def follow(self, inputs: Sequence[Any]) -> None:
        device = self._device
        if device is None:
            found = (v.device for v in inputs if isinstance(v, torch.Tensor) and v.device.type == "cuda")
            device = self._device = next(found, torch.device("cpu"))
        if device.type != "cuda":
            return
        raw = torch._C._cuda_getCurrentRawStream(device.index)
        if raw != self._raw:
            stream = torch.cuda.current_stream(device)
            if self._stream is not None:
                stream.wait_stream(self._stream)
            self._raw, self._stream = raw, stream
