"""What only a recorded call on the CPU shows: how often Python runs, shared memory, stricter rules."""

from __future__ import annotations

import pytest
import torch

from compdbg.compiler.warmup import warm_up
from compdbg.events import Capture
from tests.compiler.sized import Heard, config, sized, spec
from tests.compiler.test_capture_padding_check import called
from tests.compiler.test_capture_warm_up import Model


def rows(n, width=4):
    return torch.arange(n * width, dtype=torch.float32).reshape(n, width) + 1


def test_captures_say_that_they_are_emulated():
    with Heard() as heard:
        call = sized(lambda n, x: (x * 2,), config(4), spec())
        for _ in range(2):
            call(4, rows(4))
    (capture,) = heard.of(Capture)
    assert capture.emulated
    assert capture.bytes == 64


def compiles_inside(n, x):
    return (torch.compile(lambda t: t * 2, backend="eager")(x),)


@pytest.mark.torch
def test_a_compile_inside_a_capture_is_a_fault():
    torch._dynamo.reset()
    runs = []

    def piece(n, x):
        runs.append(n)
        return compiles_inside(n, x) if len(runs) > 1 else (x * 2,)

    with Heard() as heard:
        call = sized(piece, config(4), spec())
        for _ in range(3):
            assert torch.equal(call(4, rows(4))[0], rows(4) * 2)
    (failure,) = heard.of(Capture)
    assert failure.fault == "compile-inside"
    assert failure.where.function == "compiles_inside"


@pytest.mark.parametrize(("n", "runs"), [(4, 3), (3, 5)])
def test_the_padding_check_replays_three_times_where_rows_are_added(n, runs, monkeypatch):
    monkeypatch.setenv("COMPDBG_CHECK_PADDING", "1")
    seen = []

    def piece(n, x):
        seen.append(n)
        return (x,)

    called(piece, n=n)
    assert len(seen) == runs


def test_memory_of_fifty_sizes_is_that_of_the_largest():
    settings = config(*range(1, 51))
    model = Model(settings)
    warm_up(model, lambda n: (rows(n),))
    piece = model.call.compiled
    assert piece._arena.bytes == rows(50).nbytes
    assert model.call._arena.bytes == rows(50).nbytes
