"""COMPDBG_CHECK_PADDING=1: added rows that reach a true row or live memory are found; others are not."""

from __future__ import annotations

import pytest
import torch

from compdbg.compiler.static_inputs import SizedCall
from compdbg.events import Dispatch, PaddingLeak
from tests.compiler.sized import Heard, config, one_piece, spec


@pytest.fixture(autouse=True)
def checked(device, monkeypatch):
    monkeypatch.setenv("COMPDBG_CHECK_PADDING", "1")


def rows(n, width=4):
    return torch.arange(n * width, dtype=torch.float32).reshape(n, width) + 1


def called(piece, *extra, sizes=(4,), n=3, mode="PIECEWISE", **about):
    settings = config(*sizes, mode=mode)
    with Heard() as heard:
        call = SizedCall(one_piece(piece, settings), spec(**about), settings, "G")
        for _ in range(3):
            result = call(n, rows(n), *extra)
    return heard, result


@pytest.mark.parametrize("mode", ["PIECEWISE", "FULL"])
def test_a_mean_over_the_batch_leaks(mode):
    heard, _ = called(lambda n, x: (x - x.mean(0),), mode=mode)
    (leak,) = heard.of(PaddingLeak)
    assert (leak.what, leak.size, leak.padded_to, leak.elements) == ("output 0", 3, 4, 12)


def test_rows_on_their_own_do_not():
    heard, (result,) = called(lambda n, x: (x.softmax(-1),))
    assert not heard.of(PaddingLeak)
    assert torch.equal(result, rows(3).softmax(-1))
    last = heard.of(Dispatch)[-1]
    assert (last.replays, last.padding_checks) == (2, 1), "the call that was captured is counted as a replay"


@pytest.mark.parametrize(("asked", "n", "checks"), [("1", 4, 0), ("", 3, None), ("0", 3, None)])
def test_what_was_not_checked_is_not_counted(asked, n, checks, monkeypatch):
    """A call without added rows; a process that was not asked to check."""
    monkeypatch.setenv("COMPDBG_CHECK_PADDING", asked)
    heard, _ = called(lambda n, x: (x.softmax(-1),), n=n)
    assert {event.padding_checks for event in heard.of(Dispatch)} == {checks}


def test_added_rows_that_are_written_to_a_cache_leak():
    cache = torch.zeros(8, 4)

    def piece(n, x, cache, slots):
        cache[slots] = x * 2
        return (x + 1,)

    slots = torch.tensor([5, 6, 7])
    heard, _ = called(
        piece,
        cache,
        slots,
        inputs=(spec().inputs[0], spec().inputs[0].__class__(3, spec().inputs[0].dims)),
        input_names=("s0", "x", "cache", "slots"),
        mutated=frozenset({2}),
    )
    (leak,) = heard.of(PaddingLeak)
    assert leak.what == "cache"
    assert torch.equal(cache[5:], rows(3) * 2)


def test_a_cache_that_only_true_rows_reach_does_not_and_is_written_once():
    cache = torch.zeros(3, 4)

    def piece(n, x, cache):
        cache += x[:3]
        return (x + 1,)

    heard, _ = called(piece, cache, input_names=("s0", "x", "cache"), mutated=frozenset({2}))
    assert not heard.of(PaddingLeak)
    assert torch.equal(cache, rows(3) * 3)


def test_noise_is_no_leak():
    heard, _ = called(lambda n, x: (x + torch.rand(4),))
    assert not heard.of(PaddingLeak)


def test_integers_show_too():
    def piece(n, x):
        return (x - x.max(),)

    settings = config(4)
    with Heard() as heard:
        call = SizedCall(one_piece(piece, settings), spec(), settings, "G")
        for _ in range(3):
            call(2, torch.tensor([-5, -3]))
    (leak,) = heard.of(PaddingLeak)
    assert leak.max_abs == 3
