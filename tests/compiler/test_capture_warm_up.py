"""Warming up ahead: largest size first, one pass over the sizes, nothing counted as the program's."""

from __future__ import annotations

import gc
import io
import sys
import threading

import pytest
import torch

from compdbg.compiler.config import CompilationConfig
from compdbg.compiler.forward_context import current, set_forward_context
from compdbg.compiler.static_inputs import SizedCall
from compdbg.compiler.warmup import warm_up
from compdbg.events import AddressChanged, Capture, Dispatch
from tests.compiler.sized import Heard, Stitched, config, one_piece, spec

pytestmark = pytest.mark.usefixtures("device")


def rows(n):
    return torch.arange(n * 2, dtype=torch.float32).reshape(n, 2)


class Model:
    """What `support_torch_compile` makes of a class, as far as `warm_up` can tell."""

    def __init__(self, settings: CompilationConfig, piece=lambda n, x: (x * 2,), extra=()):
        self._compdbg_config = settings
        self.sizes = []
        self.call = SizedCall(one_piece(piece, settings), spec(), settings, "Model")
        self.extra = extra

    def __call__(self, x, *rest, scale=None):
        self.sizes.append(len(x))
        return self.call(len(x), x, *rest)[0]


def test_every_size_is_captured_largest_first():
    model = Model(config(1, 2, 4))
    with Heard() as heard:
        warm_up(model, lambda n: (rows(n),))
        assert torch.equal(model(rows(3)), rows(3) * 2)
    assert model.sizes == [4, 4, 2, 2, 1, 1, 3]
    assert [capture.size for capture in heard.of(Capture)] == [4, 2, 1]
    last = {event.size: event for event in heard.of(Dispatch)}
    assert {n: (e.replays, e.eager_calls, e.captures) for n, e in last.items()} == {
        1: (0, 0, 1),
        2: (0, 0, 1),
        3: (1, 0, 0),
        4: (0, 0, 1),
    }


def test_sizes_to_compile_are_called_once_and_sizes_can_be_chosen():
    model = Model(config(2, compile_sizes=[2, 16]))
    warm_up(model, lambda n: (rows(n),))
    assert model.sizes == [16, 2, 2]
    model.sizes.clear()
    warm_up(model, rows, sizes=[2])
    assert model.sizes == [2, 2]


def test_decode_and_mixed_batches_are_captured_apart_with_their_metadata():
    seen = []

    def piece(n, x):
        seen.append((n, current().attn_metadata))
        return (x,)

    model = Model(config(4, mode="FULL_AND_PIECEWISE"), piece)
    with Heard() as heard:
        warm_up(model, lambda n: {"x": rows(n)}, attn_metadata=lambda n, uniform: (n, uniform))
    assert [capture.mode for capture in heard.of(Capture)] == ["PIECEWISE", "FULL"]
    assert seen == [(4, (4, False))] * 2 + [(4, (4, True))] * 2


@pytest.mark.parametrize("metadata", [None, lambda n, uniform: uniform])
def test_in_mode_full_decode_batches_have_captures_too_where_there_is_metadata(metadata):
    model = Model(config(4, mode="FULL"))
    with Heard() as heard:
        warm_up(model, lambda n: (rows(n),), attn_metadata=metadata)
        for uniform in (False, True):
            with set_forward_context(metadata and metadata(4, uniform), uniform_decode=uniform):
                assert torch.equal(model(rows(4)), rows(4) * 2)
    last = next(reversed(heard.of(Dispatch)))
    kinds = 1 if metadata is None else 2
    assert (last.captures, last.replays, last.eager_calls) == (kinds, kinds, 2 - kinds)


def test_arguments_made_anew_for_each_call_are_copied_from_the_start():
    model = Model(config(1, 2, 4), lambda n, x, mask: (x * mask,))
    keep = []
    with Heard() as heard:
        for n in (4,):
            warm_up(model, lambda n: (rows(n), keep.append(torch.ones(2)) or keep[-1]))
        for value in (2.0, 3.0):
            assert torch.equal(model(rows(3), torch.full((2,), value)), rows(3) * value)
    assert not heard.of(AddressChanged)
    assert heard.of(Dispatch)[-1].replays == 2
    del n


def test_what_is_not_decorated_is_refused():
    with pytest.raises(TypeError, match="decorated with support_torch_compile"):
        warm_up(lambda x: x, rows)


def test_garbage_is_collected_again_afterwards():
    frozen = gc.get_freeze_count()
    states = []

    def piece(n, x):
        states.append(gc.isenabled())
        return (x,)

    warm_up(Model(config(2), piece), lambda n: (rows(n),))
    assert states == [False, False]
    assert gc.isenabled()
    assert gc.get_freeze_count() <= frozen


def test_no_progress_bar_where_nobody_watches(capfd):
    warm_up(Model(config(2)), lambda n: (rows(n),))
    assert capfd.readouterr().err == ""


def test_a_progress_bar_where_somebody_may_watch(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    warm_up(Model(config(1, 2)), lambda n: (rows(n),))
    assert sys.stderr.getvalue() == (
        "\rcapturing [###############               ] 1/2, size 2     "
        "\rcapturing [##############################] 2/2, size 1     \n"
    )


def test_two_threads_never_share_a_buffer_at_once():
    settings = config(4)

    def between(h):
        for _ in range(50):
            h = h + 1
        return (h - 50,)

    pieces = {
        "p0": one_piece(lambda n, x: (x * 2,), settings),
        "p1": between,
        "p2": one_piece(lambda n, h: (h + 1,), settings, from_splitting=[1]),
    }
    steps = [("p0", "s0 x", "h"), ("p1", "h", "a"), ("p2", "s0 a", "out")]
    call = SizedCall(Stitched("s0 x", steps, "out", pieces), spec(), settings, "G")
    wrong = []

    def serve(value):
        x = torch.full((4, 2), float(value))
        for _ in range(100):
            if not torch.equal(call(4, x)[0], x * 2 + 1):
                wrong.append(value)

    threads = [threading.Thread(target=serve, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
