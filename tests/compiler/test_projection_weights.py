"""Only weights of the model are packed: what may be another value on the next call is multiplied as it is."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import nn

import tests.compiler.ops
import tests.compiler.passes_only  # noqa: F401
from compdbg.compiler import CompilationConfig, support_torch_compile, use_config
from compdbg.compiler.passes.fusion.qkv_projection_fusion import register_merged_product
from compdbg.findings.collect import find_all

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")]
WIDTH = 8
ATTENTION = "core::attention"


def projected(x, weights):
    return torch.cat([(x @ weight.t()).sin() for weight in weights], -1)


class Layer(nn.Module):
    """Three projections by weights that the layer has, or by others that it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.q = nn.Parameter(torch.randn(WIDTH, WIDTH))
        self.k = nn.Parameter(torch.randn(WIDTH, WIDTH))
        self.register_buffer("v", torch.randn(WIDTH, WIDTH))

    def forward(self, x, given=()):
        return projected(x, given or (self.q, self.k, self.v))


def made(body, *splitting_ops, **parts) -> nn.Module:
    """A compiled model with this `forward`, every fusion of projections on."""

    @support_torch_compile(dynamic_arg_dims={"x": 0})
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for name, part in parts.items():
                setattr(self, name, part)

        def forward(self, x, *tables):
            return body(self, x, *tables)

    config = CompilationConfig(
        backend="passes-only",
        splitting_ops=list(splitting_ops),
        pass_config={"fuse_qkv_projection": True},
        disable_cache=True,
    )
    with use_config(config):
        return Model()


def agree(model, n, *tables):
    x = torch.randn(n, WIDTH)
    torch.testing.assert_close(model(x, *tables), model.forward_eager(x, *tables))


def merged(run) -> int:
    return run.fusion["QKVProjectionFusionPass"].matched


def refused(run) -> tuple[str, str, str]:
    """Of the only miss: its reason, what was wanted, and what kind of node was found."""
    kept = run.load()
    (row,) = [row for row in kept.fusion.rows if row.outcome == "missed"]
    assert [f.data["reason"] for f in find_all(kept) if f.severity != "info"] == [row.reason]
    return row.reason, row.near_miss.wanted, row.near_miss.found.split()[0]


NO_WEIGHT = (
    "extra-check",
    "is_weight to accept it: a parameter or buffer that the graph does not write to",
    "placeholder",
)


@pytest.mark.parametrize("inference", [False, True], ids=["as usual", "in inference mode"])
def test_inputs_of_a_fixed_size_are_no_weights(inference, record_here):
    with record_here() as run, torch.inference_mode(inference), torch.no_grad():
        model = made(lambda model, x, *tables: projected(x, tables))
        tables = [torch.randn(WIDTH, WIDTH) for _ in range(3)]
        for n in (2, 5, 3):
            agree(model, n, *tables)
            for table in tables:
                table.data.normal_()
    assert merged(run) == 0
    assert refused(run) == NO_WEIGHT


def test_one_input_among_two_parameters_keeps_them_apart(record_here):
    layer = Layer()
    with record_here() as run, torch.inference_mode():
        model = made(
            lambda model, x, table: model.layer(x, (model.layer.q, table, model.layer.k)), layer=layer
        )
        for n in (2, 5):
            agree(model, n, torch.randn(WIDTH, WIDTH))
    assert merged(run) == 0
    assert refused(run) == NO_WEIGHT


def test_what_crosses_a_split_is_no_weight(record_here):
    """Of a fixed size, made in one piece, and an input of the next like any weight."""

    def body(model, x, table):
        tables = [torch.ops.core.attention(table * (i + 1)) for i in range(3)]
        return projected(x, tables)

    with record_here() as run, torch.inference_mode():
        model = made(body, ATTENTION)
        for n in (2, 5, 3):
            agree(model, n, torch.randn(WIDTH, WIDTH))
    assert merged(run) == 0
    assert refused(run) == NO_WEIGHT


def test_a_tensor_that_is_only_an_attribute_is_no_weight(record_here):
    with record_here() as run, torch.no_grad():
        model = made(
            lambda model, x: projected(x, model.tables), tables=[torch.randn(WIDTH, WIDTH) for _ in range(3)]
        )
        for n in (2, 5, 3):
            agree(model, n)
            for table in model.tables:
                table.data.normal_()
    assert merged(run) == 0
    assert refused(run) == NO_WEIGHT


@pytest.mark.parametrize("split", [(), (ATTENTION,)], ids=["in its piece", "in another piece"])
def test_a_buffer_that_the_graph_writes_to_is_no_weight(split, record_here):
    def body(model, x):
        y = model.layer(x)
        y = torch.ops.core.attention(y) if split else y
        model.layer.v.mul_(0.5)
        return y

    layer, twin = Layer(), Layer()
    twin.load_state_dict(layer.state_dict())
    with record_here() as run, torch.inference_mode():
        model, other = (made(body, *split, layer=each) for each in (layer, twin))
        for n in (2, 5, 3):
            x = torch.randn(n, WIDTH)
            torch.testing.assert_close(model(x), other.forward_eager(x))
    assert merged(run) == 0
    assert refused(run) == NO_WEIGHT


def test_equal_layers_with_weights_and_with_inputs_are_no_twins(record_here):
    """Compiled as one they would both be merged, or neither."""

    attention = torch.ops.core.attention

    def body(model, x, *tables):
        first = attention(model.layer(attention(x)))
        return first, attention(projected(attention(x), tables))

    with record_here() as run, torch.inference_mode():
        model = made(body, ATTENTION, layer=Layer())
        for n in (2, 5, 3):
            agree(model, n, *(torch.randn(WIDTH, WIDTH) for _ in range(3)))
    assert merged(run) == 1


@torch.library.custom_op("projections::scaled", mutates_args=())
def scaled(
    x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor | None = None, *, alpha: float = 1.0
) -> torch.Tensor:
    return (x @ weight.t()) * alpha * (1 if scale is None else scale)


@torch.library.custom_op("projections::merged", mutates_args=())
def all_scaled(
    x: torch.Tensor,
    weights: Sequence[torch.Tensor],
    scale: torch.Tensor | None = None,
    *,
    alpha: float = 1.0,
) -> torch.Tensor:
    return scaled(x, torch.cat(list(weights)), scale, alpha=alpha)


scaled.register_fake(lambda x, weight, scale=None, *, alpha=1.0: x.new_empty(x.shape[0], weight.shape[0]))
all_scaled.register_fake(
    lambda x, weights, scale=None, *, alpha=1.0: x.new_empty(x.shape[0], sum(w.shape[0] for w in weights))
)
register_merged_product(torch.ops.projections.scaled.default, torch.ops.projections.merged.default)


@pytest.mark.parametrize(("alphas", "merges"), [((2.0, 2.0, 2.0), 1), ((1.0, 2.0, 3.0), 0)])
def test_products_by_name_keep_what_they_are_given(alphas, merges, record_here):
    def body(model, x):
        layer, product = model.layer, torch.ops.projections.scaled
        weights = zip((layer.q, layer.k, layer.v), alphas, strict=True)
        return torch.cat([product(x, weight, alpha=alpha).sin() for weight, alpha in weights], -1)

    with record_here() as run, torch.inference_mode():
        model = made(body, layer=Layer())
        for n in (2, 5):
            agree(model, n)
    assert merged(run) == merges


def test_parameters_and_buffers_are_weights_and_may_change(record_here):
    layer = Layer()
    with record_here() as run, torch.inference_mode():
        model = made(lambda model, x: model.layer(x), layer=layer)
        agree(model, 3)
        layer.q.normal_()
        agree(model, 2)
        layer.v.normal_()
        layer.k.data = torch.randn(WIDTH, WIDTH)
        agree(model, 5)
    assert merged(run) == 1
    assert [f.code for f in find_all(run.load()) if f.severity != "info"] == []
