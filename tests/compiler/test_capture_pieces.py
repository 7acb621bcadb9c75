"""Split graphs under capture: results of splitting pieces, addresses, values, and the replay plan."""

from __future__ import annotations

import re

import pytest
import torch

from compdbg.compiler.cuda_graph import wrap_piece
from compdbg.compiler.dynamic_spec import DynamicSpec
from compdbg.compiler.replay_plan import plan_replay
from compdbg.compiler.static_inputs import SizedCall
from compdbg.events import AddressChanged, Dispatch, StaleInput
from tests.compiler.sized import Heard, Stitched, config, one_piece, sized, spec

pytestmark = pytest.mark.usefixtures("device")


def rows(n, width=4):
    return torch.arange(n * width, dtype=torch.float32).reshape(n, width) + 1


class Unplanned:
    """The same calls, but nothing known of the chain: pieces are replayed one by one."""

    def __init__(self, stitched):
        self.stitched = stitched

    def __call__(self, *args):
        return self.stitched(*args)


def three_pieces(settings, between=lambda h: (h.sin(),)):
    """x*w | between | +x : the middle one stays as it is and gives a new tensor on each call."""
    pieces = {
        "p0": wrap_piece(lambda n, x, w: (x * w,), graph="G", piece="p0", static=[2], config=settings),
        "p1": between,
        "p2": wrap_piece(
            lambda n, a, x: (a + x,), graph="G", piece="p2", from_splitting=[1], config=settings
        ),
    }
    steps = [("p0", "s0 x w", "h"), ("p1", "h", "a"), ("p2", "s0 a x", "out")]
    return Stitched("s0 x w", steps, "out", pieces)


def three_spec() -> DynamicSpec:
    return spec(1, static=frozenset({2}), input_names=("s0", "x", "w"))


@pytest.mark.parametrize("planned", [True, False])
def test_results_of_splitting_pieces_reach_the_capture_wherever_they_are(planned):
    settings = config(2, 4)
    stitched = three_pieces(settings)
    call = SizedCall(stitched if planned else Unplanned(stitched), three_spec(), settings, "G")
    w = torch.randn(4)
    for n in (4, 4, 4, 3, 1, 1, 1, 2, 4):
        x = torch.randn(n, 4)
        torch.testing.assert_close(call(n, x, w)[0], (x * w).sin() + x)
    if planned:
        assert stitched.calls == 4, "two calls a captured size, then the plan"


def test_each_result_of_a_splitting_piece_is_told_apart():
    def between(h):
        return h.sin(), h.cos()

    def last(n, s, c):
        return (s * 2 + c,)

    settings = config(4)
    pieces = {
        "p0": wrap_piece(lambda n, x: (x * 2,), graph="G", piece="p0", config=settings),
        "s1": between,
        "p2": wrap_piece(last, graph="G", piece="p2", from_splitting=[1, 2], config=settings),
    }
    steps = [("p0", "n x", "h"), ("s1", "h", "s c"), ("p2", "n s c", "y")]
    call = SizedCall(Stitched("n x", steps, "y c", pieces), spec(results=2), settings, "G")
    for n in (4, 4, 4, 3):
        x = rows(n)
        y, c = call(n, x)
        assert torch.allclose(c, (x * 2).cos())
        assert torch.allclose(y, (x * 2).sin() * 2 + (x * 2).cos())


def test_a_plan_reads_as_replays_and_calls():
    settings = config(4)
    stitched = three_pieces(settings)
    call = SizedCall(stitched, three_spec(), settings, "G")
    for _ in range(2):
        call(4, rows(4), torch.ones(4))
    plan = plan_replay(stitched, next(iter(stitched.pieces["p0"].entries)))
    assert re.sub(r"\d+", "#", plan.source) == (
        "def plan(inputs):\n"
        "    c#()\n"
        "    v#, = c#(c#)\n"
        "    if v#.data_ptr() != #: copy_values(c#, v#)\n"
        "    c#()\n"
        "    return [c#]\n"
    )
    del call


def test_a_piece_that_writes_to_a_splitting_result_is_seen_by_later_readers():
    settings = config(4)

    def write(n, a):
        a.add_(10)
        return (a * 2,)

    pieces = {
        "p0": wrap_piece(lambda n, x: (x + 1,), graph="G", piece="p0", config=settings),
        "p1": lambda h: (h.clone(),),
        "p2": wrap_piece(write, graph="G", piece="p2", from_splitting=[1], config=settings),
        "p3": lambda a: (a.clone(),),
    }
    steps = [("p0", "s0 x", "h"), ("p1", "h", "a"), ("p2", "s0 a", "b"), ("p3", "a", "c")]
    stitched = Stitched("s0 x", steps, "b c", pieces)
    for graph in (stitched, Unplanned(stitched)):
        for piece in (pieces["p0"], pieces["p2"]):
            piece.clear_graphs()
        call = SizedCall(graph, spec(1, 2), settings, "G")
        for n in (4, 4, 4, 2, 4):
            b, c = call(n, rows(n))
            assert torch.equal(c, rows(n) + 11)
            assert torch.equal(b, (rows(n) + 11) * 2)


def test_a_replaced_parameter_is_an_address_change_and_the_result_is_right():
    settings = config(4)
    with Heard() as heard:
        call = SizedCall(three_pieces(settings), three_spec(), settings, "G")
        w = torch.ones(4)
        for _ in range(3):
            call(4, rows(4), w)
        other = torch.full((4,), 2.0)
        for _ in range(12):
            torch.testing.assert_close(call(4, rows(4), other)[0], (rows(4) * 2).sin() + rows(4))
        torch.testing.assert_close(call(4, rows(4), w)[0], rows(4).sin() + rows(4))
    changes = heard.of(AddressChanged)
    assert [(c.argument, c.calls, c.piece, c.size) for c in changes] == [("w", 1, "", 4), ("w", 10, "", 4)]
    assert changes[0].captured == hex(w.data_ptr())
    assert changes[0].seen == hex(other.data_ptr())
    last = heard.of(Dispatch)[-1]
    assert (last.replays, last.eager_calls) == (3, 13)


def test_memory_of_a_parameter_swapped_below_it_is_seen():
    settings = config(4)
    call = SizedCall(three_pieces(settings), three_spec(), settings, "G")
    w = torch.nn.Parameter(torch.ones(4), requires_grad=False)
    for _ in range(3):
        call(4, rows(4), w)
    w.data = torch.full((4,), 3.0)
    torch.testing.assert_close(call(4, rows(4), w)[0], (rows(4) * 3).sin() + rows(4))


def test_a_tensor_made_anew_for_each_call_gets_a_buffer_of_its_own():
    """A mask without a batch dimension: not the model's, not the same tensor twice."""
    settings = config(4)
    seen = set()

    def piece(n, x, mask):
        seen.add(mask.data_ptr())
        return (x * mask,)

    with Heard() as heard:
        call = SizedCall(one_piece(piece, settings), spec(1, input_names=("s0", "x", "mask")), settings, "G")
        keep = []
        for i in range(6):
            keep.append(torch.full((4,), float(i)))
            assert torch.equal(call(3, rows(3), keep[-1])[0], rows(3) * i)
    assert not heard.of(AddressChanged)
    assert heard.of(Dispatch)[-1].replays >= 3
    seen.clear()
    call(4, rows(4), torch.ones(4))
    assert len(seen) == (1 if rows(1).device.type == "cpu" else 0), "a CUDA graph does not call the piece"


def test_a_cache_that_lives_on_is_passed_as_it_is():
    settings = config(4)
    cache = torch.zeros(8)

    def piece(n, x, cache):
        cache[:n] += x[:, 0]
        return (x + cache[0],)

    call = SizedCall(one_piece(piece, settings), spec(1, input_names=("s0", "x", "cache")), settings, "G")
    for i in range(1, 6):
        assert call(4, torch.ones(4, 1), cache)[0][0].item() == 1 + i
    assert torch.equal(cache, torch.tensor([5.0] * 4 + [0] * 4))


def test_a_cache_that_moves_is_an_address_change():
    settings = config(4)
    with Heard() as heard:
        call = SizedCall(
            one_piece(lambda n, x, cache: (x + cache[0],), settings),
            spec(1, input_names=("s0", "x", "cache")),
            settings,
            "G",
        )
        cache = torch.ones(8)
        for _ in range(3):
            call(4, rows(4), cache)
        assert torch.equal(call(4, rows(4), torch.full((8,), 5.0))[0], rows(4) + 5)
    assert [change.argument for change in heard.of(AddressChanged)] == ["cache"]


def test_a_size_that_is_not_the_batch_size_is_a_value_of_the_capture():
    """A second dynamic dimension: an int input that the padded size does not determine."""
    settings = config(4)
    with Heard() as heard:
        call = SizedCall(
            one_piece(lambda n, x, m: (x * m,), settings),
            spec(1, input_names=("s0", "x", "s7")),
            settings,
            "G",
        )
        for m in (2, 2, 2, 3, 2):
            assert torch.equal(call(4, rows(4), m)[0], rows(4) * m)
    (stale,) = heard.of(StaleInput)
    assert (stale.captured, stale.seen, stale.size) == ("2", "3", 4)


def test_an_output_that_is_an_input_is_not_the_buffer():
    call = sized(lambda n, x: (x, x[:, :1]), config(4), spec(1, 2))
    for n in (4, 4, 4, 2):
        x = rows(n)
        whole, part = call(n, x)
        call(n, rows(n) + 50)
        assert torch.equal(whole, rows(n))
        assert torch.equal(part, rows(n)[:, :1])
