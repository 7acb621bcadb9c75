"""Attention metadata under FULL captures: tensors follow, plain values that were read must not change."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import pytest
import torch
from torch.nn import functional as F

from compdbg.compiler.forward_context import current, set_forward_context
from compdbg.events import Dispatch, StaleInput
from tests.compiler.sized import Heard, config, sized, spec

pytestmark = pytest.mark.usefixtures("device")


@dataclass
class Metadata:
    """`add` for each row; `scale` is read by the operator, `note` is not."""

    add: torch.Tensor
    scale: float = 1.0
    note: int = 0

    def pad_to(self, n: int) -> Metadata:
        return replace(self, add=F.pad(self.add, (0, n - len(self.add))))


class Pair(NamedTuple):
    add: torch.Tensor
    scale: float = 1.0


def attention(n, x):
    metadata = current().attn_metadata
    return (x + metadata.add[:, None] * metadata.scale,)


def rows(n):
    return torch.arange(n * 2, dtype=torch.float32).reshape(n, 2)


def run(call, n, metadata):
    with set_forward_context(metadata):
        return call(n, rows(n))[0]


def test_tensors_follow_and_are_padded_by_the_metadata_itself():
    with Heard() as heard:
        call = sized(attention, config(4, 8, mode="FULL"), spec())
        for n in (8, 8, 8, 3, 3, 3, 4, 7, 1):
            add = torch.randn(n)
            assert torch.equal(run(call, n, Metadata(add)), rows(n) + add[:, None]), n
    last = {event.size: event for event in heard.of(Dispatch)}
    assert (last[3].replays, last[4].replays, last[7].replays, last[1].replays) == (2, 1, 1, 1)
    assert not heard.of(StaleInput)


def test_the_callers_metadata_is_left_alone():
    call = sized(attention, config(4, mode="FULL"), spec())
    for _ in range(4):
        metadata = Metadata(torch.ones(3))
        run(call, 3, metadata)
        assert type(metadata) is Metadata
        assert metadata.add.shape == (3,)


def test_a_plain_value_that_the_capture_read_is_stale_when_it_changes():
    with Heard() as heard:
        call = sized(attention, config(4, mode="FULL"), spec())
        for scale in (1.0, 1.0, 1.0, 2.0, 2.0, 1.0):
            assert torch.equal(run(call, 4, Metadata(torch.ones(4), scale)), rows(4) + scale)
    (stale,) = heard.of(StaleInput)
    assert (stale.name, stale.captured, stale.seen) == ("attn_metadata.scale", "1.0", "2.0")
    assert heard.of(Dispatch)[-1].replays == 3


def test_a_plain_value_that_nobody_read_may_change():
    with Heard() as heard:
        call = sized(attention, config(4, mode="FULL"), spec())
        for note in range(5):
            run(call, 4, Metadata(torch.ones(4), note=note))
    assert not heard.of(StaleInput)
    assert heard.of(Dispatch)[-1].replays == 4


def test_metadata_of_another_shape_runs_without_the_capture():
    with Heard() as heard:
        call = sized(attention, config(4, mode="FULL"), spec())
        for _ in range(3):
            run(call, 4, Pair(torch.ones(4)))
        x = run(call, 3, Pair(torch.full((3,), 2.0)))
        assert torch.equal(x, rows(3) + 2)
    (stale,) = heard.of(StaleInput)
    assert (stale.captured, stale.seen) == ("float32[4]", "float32[3]")


def test_nested_containers():
    def piece(n, x):
        layers = current().attn_metadata["layers"]
        return (x + layers[0].add[:, None] + layers[1].add[:, None],)

    call = sized(piece, config(4, mode="FULL"), spec())
    for i in range(4):
        metadata = {"layers": [Pair(torch.full((4,), float(i))), Pair(torch.ones(4))]}
        assert torch.equal(run(call, 4, metadata), rows(4) + i + 1)


def test_a_tensor_that_an_operator_writes_to_stays_the_callers():
    def piece(n, x):
        cache = current().attn_metadata.add
        cache += 1
        return (x + cache[:, None],)

    call = sized(piece, config(4, mode="FULL"), spec())
    metadata = Pair(torch.zeros(4))
    for i in range(1, 6):
        assert torch.equal(run(call, 4, metadata), rows(4) + i)
        assert torch.equal(metadata.add, torch.full((4,), float(i)))


def test_metadata_that_is_missing_once_runs_without_the_capture():
    def piece(n, x):
        metadata = current().attn_metadata
        return (x if metadata is None else x + metadata.add[:, None],)

    call = sized(piece, config(4, mode="FULL"), spec())
    for _ in range(3):
        run(call, 4, Metadata(torch.ones(4)))
    assert torch.equal(run(call, 4, None), rows(4))
    assert torch.equal(run(call, 4, Metadata(torch.ones(4))), rows(4) + 1)


def test_piecewise_operators_see_the_callers_metadata_itself():
    seen = []

    def piece(n, x):
        seen.append(current().attn_metadata)
        return (x,)

    call = sized(piece, config(4), spec())
    metadata = Metadata(torch.ones(3))
    run(call, 3, metadata)
    assert seen == [metadata]
