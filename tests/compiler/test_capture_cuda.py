"""What only real CUDA graphs show: shared memory, streams, other threads, random numbers."""

from __future__ import annotations

import threading

import pytest
import torch

from compdbg.compiler.static_inputs import SizedCall
from compdbg.compiler.warmup import warm_up
from compdbg.events import Capture
from tests.compiler.sized import Heard, Stitched, config, one_piece, sized, spec

pytestmark = pytest.mark.gpu
MEGA = 1 << 20


def rows(n, width=4):
    return torch.arange(n * width, dtype=torch.float32, device="cuda").reshape(n, width) + 1


class Model:
    """As far as `warm_up` can tell, a decorated model."""

    def __init__(self, call, settings):
        self._compdbg_config = settings
        self.call = call

    def __call__(self, x):
        return self.call(len(x), x)[0]


def test_captures_are_real():
    with Heard() as heard:
        call = sized(lambda n, x: (x * 2,), config(4), spec())
        for _ in range(3):
            assert torch.equal(call(3, rows(3))[0], rows(3) * 2)
    (capture,) = heard.of(Capture)
    assert not capture.emulated


def test_sizes_share_the_memory_of_the_largest():
    """16 sizes of two pieces whose intermediates and outputs take 4 MB a row."""

    def wide(n, x):
        return (x[:, :1].expand(n, MEGA) * 2 + 1,)

    settings = config(*range(1, 17))
    pieces = {"p0": one_piece(wide, settings), "p1": one_piece(lambda n, h: (h.sum(1),), settings)}
    stitched = Stitched("s0 x", [("p0", "s0 x", "h"), ("p1", "s0 h", "out")], "out", pieces)
    model = Model(SizedCall(stitched, spec(), settings, "G"), settings)
    warm_up(model, rows, sizes=[16])
    largest = torch.cuda.memory_reserved()
    warm_up(model, rows, sizes=range(1, 16))
    assert torch.cuda.memory_reserved() <= 1.2 * largest
    for n in (16, 3, 9, 16):
        assert torch.equal(model(rows(n)), (rows(n)[:, 0] * 2 + 1) * MEGA)


def test_a_call_on_another_stream_waits_for_the_one_before():
    call = sized(lambda n, x: (x * 2,), config(4), spec())
    for _ in range(3):
        call(4, rows(4))
    torch.cuda.synchronize()
    streams = [torch.cuda.Stream() for _ in range(3)]
    given = [rows(4) * i for i in range(12)]
    torch.cuda.synchronize()
    results = []
    for i, x in enumerate(given):
        with torch.cuda.stream(streams[i % 3]):
            torch.cuda._sleep(200_000)
            results.append(call(4, x)[0])
    torch.cuda.synchronize()
    for x, result in zip(given, results, strict=True):
        assert torch.equal(result, x * 2)


def test_other_threads_may_allocate_and_copy_during_a_capture():
    done = threading.Event()
    wrong = []

    def busy():
        while not done.is_set():
            try:
                torch.zeros(torch.randint(1, 1 << 22, ()).item(), device="cuda").sum().item()
            except RuntimeError as error:
                wrong.append(error)
                return

    thread = threading.Thread(target=busy)
    thread.start()
    try:
        settings = config(*range(1, 33))
        model = Model(sized(lambda n, x: (torch.nn.functional.silu(x) @ x.t(),), settings, spec()), settings)
        with Heard() as heard:
            warm_up(model, rows)
    finally:
        done.set()
        thread.join()
    assert not wrong
    assert [capture.error for capture in heard.of(Capture)] == [None] * 32


def test_random_numbers_differ_from_replay_to_replay():
    call = sized(lambda n, x: (x + torch.rand_like(x),), config(4), spec())
    results = [call(4, rows(4))[0] for _ in range(5)]
    assert len({tuple(result.flatten().tolist()) for result in results}) == 5


def test_a_step_captured_by_the_program_itself_is_left_to_it():
    call = sized(lambda n, x: (x * 2,), config(4, mode="NONE"), spec())
    x = rows(4)
    call(4, x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = call(4, x)[0]
    x.add_(1)
    graph.replay()
    assert torch.equal(out, x * 2)
