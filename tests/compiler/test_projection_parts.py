"""Projections out of one product are read where they lie; where strides are promised, they are copied."""

from __future__ import annotations

import weakref

import numpy
import pytest
import torch

import fixtures.models.attention  # noqa: F401
from compdbg.compiler.ops.projections import packed, repack_weights
from compdbg.compiler.ops.rope import rotate
from compdbg.compiler.passes.at_stage import show_to_pass
from compdbg.compiler.passes.fusion.qkv_projection_fusion import QKVProjectionFusionPass
from compdbg.compiler.passes.inductor_pass import pass_context
from compdbg.compiler.ranges import STATIC

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")]
aten = torch.ops.aten
x, weights = torch.randn(5, 32), [torch.randn(32, 32), torch.randn(16, 32), torch.randn(16, 32)]
angles = torch.randn(2, 5, 1, 8)


def shown(forward, inputs, custom_pass):
    """All inputs behind the first are weights."""
    with torch.no_grad(), pass_context(STATIC, weights=frozenset(range(1, len(inputs)))):
        show_to_pass(forward, inputs, custom_pass)


def copies(forward):
    """How many of the three projections are copied out of the product; and what its views are."""
    graphs = []

    def fused(graph):
        QKVProjectionFusionPass()(graph)
        graph.lint()
        graphs.append(graph)

    shown(forward, [x, *weights, *angles], fused)
    (graph,) = graphs
    assert graph.find_nodes(op="call_function", target=torch.ops.compdbg.merged_projection.default)
    return len(graph.find_nodes(op="call_function", target=aten.clone.default)), graph


def heads(x, *weights):
    return [(x @ weight.t()).unflatten(-1, (-1, 8)) for weight in weights]


def test_what_torch_reads_is_not_copied():
    def forward(x, q, k, v, cos, sin):
        q, k, v = heads(x, q, k, v)
        return rotate(q, cos, sin), rotate(k, cos, sin), v * 2

    count, graph = copies(forward)
    assert count == 0
    views = [node.meta["val"] for node in graph.find_nodes(op="call_function", target=aten.reshape.default)]
    assert [(view.stride()[0], view.stride()[1:]) for view in views if view.shape[1:] == (4, 8)] == [
        (64, (8, 1))
    ]


def test_what_the_caller_gets_is_copied():
    def forward(x, q, k, v, cos, sin):
        q, k, v = heads(x, q, k, v)
        return rotate(q, cos, sin), k.transpose(0, 1), v

    assert copies(forward)[0] == 2


def test_what_another_operator_reads_is_copied():
    def forward(x, q, k, v, cos, sin):
        q, k, v = heads(x, q, k, v)
        out, cache = torch.empty_like(q), torch.zeros(2, 4, 16, 2, 8)
        torch.ops.fixtures.paged_attention(q, k, v, out, cache, 0.5)
        return out, cos + sin

    assert copies(forward)[0] == 3


def test_a_tensor_that_is_reinterpreted_is_copied():
    def forward(x, q, k, v, cos, sin):
        q, k, v = heads(x, q, k, v)
        return torch.as_strided(q, (4,), (1,)) + 1, k + 1, v + cos.sum() + sin.sum()

    assert copies(forward)[0] == 1


@pytest.mark.parametrize(
    "read",
    [
        lambda q: torch.view_as_complex(q.unflatten(-1, (-1, 2))).abs(),
        lambda q: q.view(torch.int64) + 1,
    ],
    ids=["as complex numbers", "as another dtype"],
)
def test_a_part_whose_bits_are_read_otherwise_is_copied(read):
    """Here the gaps between its rows could not be read so at all: a row of the product has 47 columns."""
    odd = [x, weights[0], torch.randn(15, 32), weights[2]]

    def forward(x, q, k, v):
        return read(x @ q.t()), (x @ k.t()).sin(), (x @ v.t()).cos()

    kept = []

    def fused(graph):
        QKVProjectionFusionPass()(graph)
        kept.append(graph.find_nodes(op="call_function", target=aten.clone.default))

    shown(forward, odd, fused)
    assert [len(clones) for clones in kept] == [1]


def test_what_is_multiplied_is_no_weight_if_it_is_turned():
    """Of `addmm(bias, x.t(), w)` the weight is the last."""

    def forward(bias, x, *weights):
        turned = x.t()
        return tuple(torch.addmm(bias, turned, weight) * 2 for weight in weights)

    merged = []

    def fused(graph):
        fusion = QKVProjectionFusionPass()
        fusion(graph)
        merged.append(fusion.matched_count)

    shown(forward, [torch.randn(8), *(torch.randn(8, 8) for _ in range(4))], fused)
    assert merged == [0]


def test_a_weight_in_the_place_of_another_is_packed_anew():
    memory = numpy.ones((2, 4), dtype="float32")
    q, v, k = torch.ones(4, 4), torch.ones(2, 4), torch.from_numpy(memory)
    assert packed([q, k, v])[4:6].unique().tolist() == [1]
    del k
    memory[:] = 5
    k = torch.from_numpy(memory)
    assert packed([q, k, v])[4:6].unique().tolist() == [5]


def test_a_part_of_a_weight_is_another_weight():
    q, k, v = (torch.ones(4, 4) for _ in range(3))
    assert packed([q, k, v]).shape == (12, 4)
    assert packed([q[:2], k[:2], v[:2]]).shape == (6, 4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float8_e4m3fn], ids=str)
@pytest.mark.parametrize("inference", [False, True], ids=["as usual", "packed in inference mode"])
def test_what_is_written_to_a_weight_comes_to_where_it_was_packed(dtype, inference):
    given = [torch.ones(rows, 4).to(dtype) for rows in (4, 2, 2)]
    with torch.inference_mode(inference):
        first = packed(given)
    given[1].copy_(torch.full((2, 4), 3.0))
    second = packed(given)
    assert second.data_ptr() == first.data_ptr()
    assert torch.equal(first.float(), torch.cat([each.float() for each in given]))


@pytest.mark.parametrize("through", ["data", "inference mode"])
def test_writes_that_torch_does_not_count_are_taken_up_when_asked(through):
    with torch.inference_mode(through == "inference mode"):
        given = [torch.ones(rows, 4) for rows in (4, 2, 2)]
        joined = packed(given)
        given[2].data.fill_(7)
        assert packed(given)[6:].unique().tolist() == [1]
        repack_weights()
    assert joined[6:].unique().tolist() == [7]


def test_memory_swapped_below_a_weight_comes_to_where_it_was_packed():
    given = [torch.nn.Parameter(torch.ones(rows, 4)) for rows in (4, 2, 2)]
    joined = packed(given)
    for value in range(2, 12):  # what was freed is soon given out again
        given[1].data = torch.empty(0)
        given[1].data = torch.full((2, 4), float(value))
        assert packed(given) is joined
        assert joined[4:6].unique().tolist() == [value]


def test_a_copy_goes_with_the_first_of_its_weights():
    given = [torch.ones(rows, 4) for rows in (4, 2, 2)]
    joined = weakref.ref(packed(given))
    given[1] = torch.zeros(2, 4)
    assert joined() is None
    assert packed(given)[4:6].unique().tolist() == [0]


def test_weights_of_another_dtype_are_packed_anew():
    given = [torch.nn.Parameter(torch.ones(rows, 4)) for rows in (4, 2, 2)]
    assert packed(given).dtype is torch.float32
    for weight in given:
        weight.data = weight.data.half()
    assert packed(given).dtype is torch.float16
