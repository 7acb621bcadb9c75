"""Patterns of sums and products, of which graphs are full: what resembles them, and what does not."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor  # noqa: E402

from tests.integration.fusion_programs import a_pass, alarms, findings, graph_of, only_row  # noqa: E402

pytestmark = pytest.mark.torch
Recorder = Callable[..., AbstractContextManager[Any]]

X, Y, Z, W = torch.empty(5, 8), torch.empty(5, 8), torch.empty(5, 8), torch.empty(8)


def gate(g: Tensor, u: Tensor) -> Tensor:
    """SiLU·Mul as Inductor writes it."""
    return g / (g.neg().exp() + 1) * u


def gate_by_sigmoid(g: Tensor, u: Tensor) -> Tensor:
    return g * g.sigmoid() * u


def gelu(x: Tensor, u: Tensor) -> Tensor:
    return x * 0.5 * ((0.8 * (x + 0.04 * x * x * x)).tanh() + 1) * u


def norm(x: Tensor, w: Tensor) -> Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * w


def layer_norm(x: Tensor, w: Tensor) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt() * w


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.split([4, 4], -1)
    return x * cos + torch.cat((-second, first), -1) * sin


def scaled_sum(x: Tensor, w: Tensor, y: Tensor) -> Tensor:
    return x * w + y


def softmax(x: Tensor, mask: Tensor) -> Tensor:
    """Written out, with a dropout mask."""
    powers = (x - x.amax(-1, keepdim=True)).exp()
    return powers / powers.sum(-1, keepdim=True) * mask


def routed(x: Tensor, w: Tensor) -> Tensor:
    """An expert's output by its share, as a mixture of experts has it."""
    powers = (w - w.amax(-1, keepdim=True)).exp()
    shares = powers / powers.sum(-1, keepdim=True)
    return x * shares.select(-1, 0).unsqueeze(-1)


def decoder(x: Tensor, y: Tensor, z: Tensor, w: Tensor, m: Tensor) -> Tensor:
    """Norm, rotation, attention, residual sums, a gated MLP, experts: a bit of everything."""
    q, k = rotate(norm(x, w) @ m, y, z), rotate(norm(x, w) @ m, y, z)
    x = x + (softmax(q @ k.t(), torch.ones(5, 5)) @ x) @ m
    normal = layer_norm(x, w)
    return x + (gate(normal @ m, normal @ m) @ m) + routed(gelu(normal @ m, normal @ m) @ m, x)


def without(*left_out: str) -> Callable[..., Tensor]:
    def other(*tensors: Tensor) -> Tensor:
        with pytest.MonkeyPatch.context() as patch:
            for name in left_out:
                patch.setitem(globals(), name, lambda x, *rest: x.sin())
            return decoder(*tensors)

    return other


PATTERNS = {
    "gate": (gate, [X, Y]),
    "gate_by_sigmoid": (gate_by_sigmoid, [X, Y]),
    "gelu": (gelu, [X, Y]),
    "norm": (norm, [X, W]),
    "rotate": (rotate, [X, Y, Z]),
    "softmax": (softmax, [torch.empty(5, 5), torch.empty(5, 5)]),
    "scaled_sum": (scaled_sum, [X, W, Y]),
}
FIRES = {"gate": 1, "gelu": 1, "norm": 2, "rotate": 2, "softmax": 1}
ALIKE = {"norm": ["layer_norm"], "softmax": ["routed"]}
"""What of the decoder is nearly the pattern, and is said to be."""
INPUTS = (X, Y, Z, W, torch.empty(8, 8))


class TestSomethingElse:
    @pytest.mark.parametrize("name", FIRES)
    def test_a_pattern_that_fires_everywhere_misses_nothing(self, record_here: Recorder, name: str) -> None:
        with record_here() as run:
            a_pass(*PATTERNS[name]).apply(graph_of(without(*ALIKE.get(name, [])), *INPUTS))
        row = only_row(run)
        assert (row.outcome, row.matched, row.sites_left) == ("fired", FIRES[name], 0), row.why
        assert not alarms(run)

    @pytest.mark.parametrize("name", [*FIRES, "gate_by_sigmoid"])
    def test_without_it_there_is_no_candidate(self, record_here: Recorder, name: str) -> None:
        with record_here() as run:
            a_pass(*PATTERNS[name]).apply(graph_of(without(name, *ALIKE.get(name, [])), *INPUTS))
        assert only_row(run).outcome == "no-candidate", only_row(run).why
        assert not alarms(run)

    def test_a_sum_of_a_product_further_up(self, record_here: Recorder) -> None:
        """A residual sum, whose matrix product is of something scaled."""
        with record_here() as run:
            graph = graph_of(lambda x, w, y, m: (x * w) @ m + y, X, W, Y, torch.empty(8, 8))
            a_pass(scaled_sum, [X, W, Y]).apply(graph)
        assert only_row(run).outcome == "no-candidate"

    def test_what_is_near_belongs_to_a_match(self, record_here: Recorder) -> None:
        """Of the gate that stands before it, a product has all but what fired."""
        with record_here() as run:
            a_pass(gate, [X, Y]).apply(graph_of(lambda x, y, z: gate(x, y) * z.neg(), X, Y, Z))
        assert (only_row(run).outcome, only_row(run).sites_left) == ("fired", 0)


def two_users(x: Tensor, y: Tensor) -> Any:
    swish = x / (x.neg().exp() + 1)
    return swish * y, swish


NEARLY = {
    "a cast between": (gate, lambda x, y: (x / (x.neg().exp() + 1)).double() * y, "target-mismatch"),
    "a view between": (gate, lambda x, y: (x / (x.neg().exp() + 1)).view(8, 5) * y.t(), "target-mismatch"),
    "operands the other way": (gate, lambda x, y: y * (x / (x.neg().exp() + 1)), "target-mismatch"),
    "a second user": (gate, two_users, "multiple-users"),
    "another constant": (gate, lambda x, y: x / (x.neg().exp() + 2) * y, "arg-mismatch"),
    "another value": (gate, lambda x, y: x / (y.neg().exp() + 1) * y, "kwarg-mismatch"),
    "another op": (gate, lambda x, y: x / (x.neg().exp2() + 1) * y, "target-mismatch"),
    "an op between": (gate, lambda x, y: (x / (x.neg().exp() + 1)).relu() * y, "target-mismatch"),
    "an op less": (gate, lambda x, y: x / (x.exp() + 1) * y, "target-mismatch"),
    "another constant of many": (
        gelu,
        lambda x, y: x * 0.5 * ((0.8 * (x + 0.05 * x * x * x)).tanh() + 1) * y,
        "arg-mismatch",
    ),
    "the same by other ops": (
        norm,
        lambda x, y: x / (x.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt() * y,
        "target-mismatch",
    ),
    "one of the sums turned": (
        rotate,
        lambda x, y: torch.cat((-x[:, 4:], x[:, :4]), -1) * y + x * y,
        "target-mismatch",
    ),
    "a sum turned": (scaled_sum, lambda x, y: y + x * y, "target-mismatch"),
}


@pytest.mark.parametrize("case", NEARLY)
def test_what_is_nearly_the_pattern_is_missed(record_here: Recorder, case: str) -> None:
    pattern, model, reason = NEARLY[case]
    inputs = next(inputs for each, inputs in PATTERNS.values() if each is pattern)
    with record_here() as run:
        a_pass(pattern, inputs).apply(graph_of(model, X, Y))
    (finding,) = findings(run, "fusion-missed")
    assert (finding.data["reason"], finding.data["sites"]) == (reason, 1)


def test_a_check_that_refuses_a_pattern_of_common_ops(record_here: Recorder) -> None:
    with record_here() as run:
        a_pass(scaled_sum, [X, W, Y], extra_check=lambda match: False).apply(graph_of(scaled_sum, X, W, Y))
    assert only_row(run).reason == "extra-check"


@pytest.mark.parametrize("between", ["sin", "cumsum"])
def test_what_comes_of_a_whole_row_is_another_value(record_here: Recorder, between: str) -> None:
    """A pattern with an anchor that is rare: a pointwise op may stand between, one over a row not."""

    def model(x: Tensor, y: Tensor) -> Tensor:
        total = x + y
        return (total.sin() if between == "sin" else total.cumsum(-1)).tanh()

    with record_here() as run:
        a_pass(lambda x, y: (x + y).tanh(), [X, Y]).apply(graph_of(model, X, Y))
    assert only_row(run).outcome == ("missed" if between == "sin" else "no-candidate")
