"""What a capture can't hold: said once with the program's line, and the results stay right."""

from __future__ import annotations

import inspect

import pytest
import torch

from compdbg.compiler.capture_rules import fault_of
from compdbg.compiler.static_inputs import SizedCall
from compdbg.events import Capture, Dispatch
from tests.compiler.sized import Heard, Stitched, config, one_piece, sized, spec

pytestmark = pytest.mark.usefixtures("device")


def rows(n, width=4):
    return torch.arange(n * width, dtype=torch.float32).reshape(n, width) + 1


def reads_a_value(n, x):
    return (x * x.max().item(),)


def branches_on_a_tensor(n, x):
    return (x + 1 if (x > 0).all() else x,)


def picks_by_mask(n, x):
    return (x[x > 2].sum() + x,)


@pytest.mark.parametrize(
    ("piece", "fault", "op"),
    [
        (reads_a_value, "sync", "aten._local_scalar_dense.default"),
        (branches_on_a_tensor, "sync", "aten._local_scalar_dense.default"),
        (picks_by_mask, "sync", "aten.index.Tensor"),
    ],
)
@pytest.mark.parametrize("mode", ["PIECEWISE", "FULL"])
def test_the_first_illegal_call_is_named_with_its_line(piece, fault, op, mode):
    with Heard() as heard:
        call = sized(piece, config(4, mode=mode), spec())
        for _ in range(4):
            assert torch.equal(call(4, rows(4))[0], piece(4, rows(4))[0])
    (failure,) = heard.of(Capture)
    assert (failure.fault, failure.op, failure.size, failure.mode) == (fault, op, 4, mode)
    lines, first = inspect.getsourcelines(piece)
    assert failure.where.file == __file__
    assert failure.where.line == first + len(lines) - 1
    assert failure.where.function == piece.__name__
    assert failure.thread == "MainThread"
    last = heard.of(Dispatch)[-1]
    assert (last.size, last.eager_calls, last.warm_ups, last.replays) == (4, 4, 1, 0)


def test_torchs_advice_on_how_to_debug_an_error_is_no_part_of_it():
    error = RuntimeError(
        "CUDA error: operation not permitted when stream is capturing\n"
        "Search for `cudaErrorStreamCaptureUnsupported' in the documentation.\n"
        "CUDA kernel errors might be asynchronously reported at some other API call.\n"
        "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions."
    )
    assert fault_of(error).kind == "op"
    assert fault_of(RuntimeError("CUDA error: capturing the legacy stream")).kind == "sync"


def test_the_failing_call_is_executed_once():
    state = torch.zeros(1)

    def piece(n, x):
        state.add_(1)
        return (x + state.item(),)

    call = sized(piece, config(4), spec())
    assert [call(4, torch.zeros(4, 1))[0][0].item() for _ in range(4)] == [1, 2, 3, 4]


def test_random_numbers_and_other_captures_work_after_a_failure():
    with Heard() as heard:
        sized_twice = [
            sized(reads_a_value, config(4), spec()),
            sized(lambda n, x: (x * 2,), config(4), spec()),
        ]
        for call in sized_twice:
            for _ in range(3):
                call(4, rows(4))
                assert 0 <= torch.rand(1).item() < 1
    assert [capture.error is None for capture in heard.of(Capture)] == [False, True]


def test_one_piece_that_fails_leaves_the_whole_size_uncaptured():
    settings = config(2, 4)
    pieces = {
        "p0": one_piece(lambda n, x: (x + 1,), settings),
        "p1": one_piece(lambda n, h: (h * h.sum().item() if n == 4 else h * 2,), settings),
    }
    stitched = Stitched("s0 x", [("p0", "s0 x", "h"), ("p1", "s0 h", "out")], "out", pieces)
    with Heard() as heard:
        call = SizedCall(stitched, spec(), settings, "G")
        for _ in range(4):
            call(4, rows(4))
            assert torch.equal(call(2, rows(2))[0], (rows(2) + 1) * 2)
    assert [(c.size, c.error is None) for c in heard.of(Capture)] == [
        (4, True),
        (4, False),
        (2, True),
        (2, True),
    ]
    last = {event.size: event for event in heard.of(Dispatch)}
    assert (last[4].replays, last[2].replays) == (0, 3)


def test_an_error_of_the_program_is_the_callers():
    def piece(n, x):
        raise ValueError("no")

    call = sized(piece, config(4), spec())
    for _ in range(3):
        with pytest.raises(ValueError, match="no"):
            call(4, rows(4))


def test_an_error_in_one_call_does_not_spoil_the_next():
    broken = [False]

    def piece(n, x):
        if broken[0]:
            raise ValueError("no")
        return (x * 2,)

    call = sized(piece, config(4), spec())
    call(4, rows(4))
    broken[0] = True
    with pytest.raises(ValueError, match="no"):
        call(4, rows(4))
    broken[0] = False
    for _ in range(3):
        assert torch.equal(call(3, rows(3))[0], rows(3) * 2)
