"""Calls by batch size: padded up to a captured size, cut back, executed exactly once, counted."""

from __future__ import annotations

import pytest
import torch

from compdbg.compiler.dynamic_spec import BatchDim, DynamicInput, SizeSource
from compdbg.compiler.forward_context import current, set_forward_context
from compdbg.compiler.static_inputs import SizedCall
from compdbg.events import Capture, Dispatch
from tests.compiler.sized import Heard, config, one_piece, sized, spec

pytestmark = pytest.mark.usefixtures("device")


def double(n, x):
    return (x * 2,)


def rows(n, width=4):
    return torch.arange(n * width, dtype=torch.float32).reshape(n, width) + 1


@pytest.mark.parametrize("mode", ["PIECEWISE", "FULL"])
def test_each_size_runs_in_the_smallest_capture_that_holds_it(mode):
    seen = []

    def piece(n, x):
        seen.append((n, len(x)))
        return (x * 2,)

    call = sized(piece, config(1, 2, 4, 8, mode=mode), spec())
    for n in (1, 2, 3, 4, 5, 8):
        for _ in range(3):
            assert torch.equal(call(n, rows(n))[0], rows(n) * 2)
    assert {n for n, _ in seen} == {1, 2, 4, 8}
    assert all(n == length for n, length in seen)


def test_above_the_largest_size_calls_run_as_they_are():
    seen = []

    def piece(n, x):
        seen.append(n)
        return (x * 2,)

    call = sized(piece, config(1, 2), spec())
    for _ in range(3):
        assert torch.equal(call(9, rows(9))[0], rows(9) * 2)
    assert seen == [9, 9, 9]


def test_an_empty_batch_runs_as_it_is():
    call = sized(double, config(1, 2), spec())
    for _ in range(3):
        assert call(0, rows(0))[0].shape == (0, 4)


@pytest.mark.parametrize("mode", ["PIECEWISE", "FULL"])
def test_every_call_is_executed_exactly_once(mode):
    state = torch.zeros(4)

    def piece(n, x):
        state.add_(1)
        return (x + state[0],)

    call = sized(piece, config(4, mode=mode), spec())
    results = [call(4, torch.zeros(4, 1))[0][0].item() for _ in range(5)]
    assert results == [1, 2, 3, 4, 5]


def test_rows_of_an_earlier_larger_call_are_zeroed():
    call = sized(lambda n, x: (x.sum(0, keepdim=True).expand(n, 4).clone(),), config(8), spec())
    for n in (8, 8, 8, 3, 5, 2, 8, 1):
        assert torch.equal(call(n, rows(n))[0][0], rows(n).sum(0)), n


def test_outputs_are_the_callers_own_unless_told_otherwise():
    call = sized(double, config(4), spec())
    for _ in range(3):
        first = call(4, rows(4))[0]
    kept = first.clone()
    call(4, rows(4) + 100)
    assert torch.equal(first, kept)
    shared = sized(double, config(4, copy_outputs=False), spec())
    for _ in range(3):
        first = shared(4, rows(4))[0]
    second = shared(4, rows(4) + 100)[0]
    assert torch.equal(first, second)


def test_an_input_that_the_graph_writes_to_is_written_for_the_caller():
    def piece(n, x):
        x.add_(1)
        return (x * 2,)

    call = sized(piece, config(4), spec(mutated=frozenset({1})))
    for n in (3, 3, 3, 4, 2):
        x = rows(n)
        result = call(n, x)[0]
        assert torch.equal(x, rows(n) + 1)
        assert torch.equal(result, (rows(n) + 1) * 2)


def overlapping(n):
    memory = rows(2 * n + 1)
    return [memory[:n], memory[1 : n + 1]]


def interleaved(n):
    memory = rows(2 * n)
    return [memory[::2], memory[1::2]]


def beside(n):
    return list(rows(n, 8).chunk(2, dim=1))


@pytest.mark.parametrize(
    ("make", "captured"),
    [(overlapping, False), (lambda n: [rows(n)] * 2, False), (interleaved, True), (beside, True)],
)
def test_an_input_in_memory_of_another_that_is_written_to_shows_the_write(make, captured):
    def piece(n, x, y):
        x.add_(1)
        return (y * 2,)

    call = sized(piece, config(4), spec(2, mutated=frozenset({1})))
    with Heard() as heard:
        for n in (3, 3, 3, 4, 2):
            given, wanted = make(n), make(n)
            result = call(n, *given)[0]
            assert torch.equal(result, piece(n, *wanted)[0])
            assert all(map(torch.equal, given, wanted))
        del call
    served = {event.size: event for event in heard.of(Dispatch)}
    assert any(event.replays for event in served.values()) == captured
    assert {reason for event in served.values() for reason in event.uncaptured} == (
        set() if captured else {"overlap"}
    )


def test_multiples_other_dims_and_sizes_read_from_a_shape():
    """Position ids of shape (3, n); a flat tensor of 2n; the batch size is a dimension, not an input."""
    what = spec(
        size=SizeSource(0, dim=1),
        size_inputs=(),
        inputs=(DynamicInput(0, (BatchDim(1),)), DynamicInput(1, (BatchDim(0, 2),))),
        outputs=((BatchDim(1),), (BatchDim(0, 2),)),
    )
    call = sized(lambda p, f: (p + 1, f * 2), config(4, 8), what)
    for n in (2, 3, 3, 3, 4, 7, 8, 3):
        positions, flat = torch.arange(3 * n).reshape(3, n), torch.arange(2.0 * n)
        one, two = call(positions, flat)
        assert torch.equal(one, positions + 1)
        assert torch.equal(two, flat * 2)


def test_the_compiled_code_sees_the_strides_of_the_first_call_at_every_size():
    seen = set()

    def piece(n, x):
        seen.add(tuple(x.stride()))
        return (x.clone(),)

    call = sized(piece, config(2, 4), spec())
    wide = torch.randn(8, 10)
    for n in (4, 4, 4, 2, 2, 2, 1):
        assert torch.equal(call(n, wide[:n, :4])[0], wide[:n, :4])
    assert seen == {(10, 1)}
    seen.clear()
    call = sized(piece, config(2, 4), spec())
    for n in (4, 4, 4, 3, 2, 2, 2):
        x = torch.randn(4, n).t()
        assert torch.equal(call(n, x)[0], x)
    assert seen == {(1, 4), (1, 2)}


def test_sizes_that_disagree_are_called_as_they_are():
    what = spec(2)
    call = sized(lambda n, x, y: (x + y[:1],), config(4), what)
    for _ in range(3):
        call(4, rows(4), rows(4))
    assert torch.equal(call(4, rows(4), rows(2))[0], rows(4) + rows(2)[:1])
    assert torch.equal(call(4, rows(4).double(), rows(4))[0], rows(4).double() + rows(4)[:1])


def test_where_rows_cannot_be_added_only_exact_sizes_are_captured():
    with Heard() as heard:
        call = sized(double, config(2, 4), spec(paddable=False, why="size is n // 2"))
        for _ in range(3):
            call(4, rows(4))
            call(3, rows(3))
    assert {(event.size, event.error) for event in heard.of(Capture)} == {(4, None)}
    last = {event.size: event for event in heard.of(Dispatch)}
    assert (last[4].replays, last[4].eager_calls, last[4].warm_ups) == (2, 1, 1)
    assert (last[3].replays, last[3].eager_calls, last[3].warm_ups) == (0, 3, 0)


def test_calls_that_want_gradients_run_uncaptured():
    call = sized(double, config(4), spec())
    for _ in range(3):
        x = rows(4).requires_grad_()
        call(4, x)[0].sum().backward()
        assert torch.equal(x.grad, torch.full((4, 4), 2.0))
    with torch.no_grad():
        for _ in range(3):
            assert not call(4, rows(4).requires_grad_())[0].requires_grad


def test_a_graph_without_a_batch_size_is_called_through():
    call = sized(lambda x: (x + 1,), config(4), spec(size=None))
    assert torch.equal(call(torch.zeros(3))[0], torch.ones(3))


def test_sizes_among_the_outputs_are_the_true_ones():
    call = sized(lambda n, x: (x * 2, n * 3), config(4), spec(outputs=((BatchDim(0),), (BatchDim(-1, 3),))))
    for _ in range(3):
        assert call(3, rows(3))[1] == 9


def test_the_context_of_the_pass_is_seen_inside():
    seen = []

    def piece(n, x):
        context = current()
        seen.append((context.attn_metadata, context.batch.num_tokens, context.true_size))
        return (x,)

    call = sized(piece, config(4), spec())
    with set_forward_context("meta"):
        call(3, rows(3))
    assert seen == [("meta", 4, 3)]
    assert current() is None


def test_tallies_are_told_at_powers_of_ten_and_at_the_end(device):
    with Heard() as heard:
        call = sized(double, config(4), spec())
        for _ in range(25):
            call(3, rows(3))
    told = [event.replays + event.eager_calls for event in heard.of(Dispatch) if event.size == 3]
    assert told == [1, 10, 25]
    last = heard.of(Dispatch)[-1]
    assert (last.padded_to, last.replays, last.eager_calls, last.captures) == (4, 24, 1, 1)
    (capture,) = heard.of(Capture)
    assert (capture.size, capture.piece, capture.emulated, capture.mode) == (
        4,
        "p0",
        device == "cpu",
        "PIECEWISE",
    )
    with Heard() as later:
        call(3, rows(3))
    assert [(event.replays, event.captures) for event in later.of(Dispatch)] == [(1, 0), (1, 0)]
    del call


def test_mode_none_captures_nothing():
    with Heard() as heard:
        call = sized(double, config(4, mode="NONE"), spec())
        for _ in range(3):
            call(4, rows(4))
    assert not heard.of(Capture)


def test_decode_and_mixed_batches_by_mode():
    def modes(mode):
        with Heard() as heard:
            settings = config(4, mode=mode)
            call = SizedCall(one_piece(double, settings), spec(), settings, "G")
            for uniform in (True, False):
                for _ in range(3):
                    with set_forward_context(uniform_decode=uniform):
                        assert torch.equal(call(3, rows(3))[0], rows(3) * 2)
        return [event.mode for event in heard.of(Capture)]

    assert modes("FULL_DECODE_ONLY") == ["FULL"]
    assert modes("FULL_AND_PIECEWISE") == ["FULL", "PIECEWISE"]
    assert modes("FULL") == ["FULL", "FULL"]
    assert modes("PIECEWISE") == ["PIECEWISE"]
