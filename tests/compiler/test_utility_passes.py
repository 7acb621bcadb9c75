"""Parts of tensors: scatters and splits become what patterns look for, and no value changes."""

from __future__ import annotations

import copy

import pytest
import torch

from compdbg.compiler.ops.rope import rotate, rotation
from compdbg.compiler.passes.at_stage import show_to_pass
from compdbg.compiler.passes.utility.blocks import FoldBlocksPass
from compdbg.compiler.passes.utility.noop_elimination import NoOpEliminationPass
from compdbg.compiler.passes.utility.scatter_split_replacement import ScatterSplitReplacementPass
from compdbg.compiler.passes.utility.split_coalescing import SplitCoalescingPass

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")]
aten = torch.ops.aten
TIDYING = (ScatterSplitReplacementPass, SplitCoalescingPass, NoOpEliminationPass)


def ops_after(passes, function, *inputs) -> list[str]:
    """The operators of a function's graph after these passes, which must not have changed its results."""
    kept = []

    def tidy(graph):
        for made in passes:
            made()(graph)
        graph.lint()
        graph.eliminate_dead_code()
        kept.append(torch.fx.GraphModule(graph.owning_module, copy.deepcopy(graph)))

    show_to_pass(function, list(inputs), tidy)
    (module,) = kept
    wanted = function(*(tensor.clone() for tensor in inputs))
    found = module(*(tensor.clone() for tensor in inputs))
    for a, b in zip(found, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)
        assert a.stride() == b.stride()
    names = [str(node.target) for node in module.graph.nodes if node.op == "call_function"]
    return [name.removeprefix("aten.") for name in names if "getitem" not in name]


def test_a_part_of_what_was_scattered_is_what_was_scattered():
    def forward(x, y):
        x = x * 2
        x[:, :3] = y
        return x[:, :3] + 1, x[:, 3:] - 1

    after = ops_after([ScatterSplitReplacementPass], forward, torch.randn(4, 8), torch.randn(4, 3))
    assert sorted(after) == ["add.Tensor", "mul.Tensor", "slice.Tensor", "sub.Tensor"]


def test_a_selected_row_is_the_row_that_was_set():
    def forward(x, y):
        x = x * 2
        x[1] = y
        x[2] = y.sin()
        return x[1] + 1, x[0].cos()

    after = ops_after([ScatterSplitReplacementPass], forward, torch.randn(4, 8), torch.randn(8))
    assert sorted(after) == ["add.Tensor", "cos.default", "mul.Tensor", "select.int"]


def one_scatter(read):
    def forward(x, y):
        x = x * 2
        x[:, 2:6] = y
        return read(x).cos()

    return forward


@pytest.mark.parametrize(
    "read",
    [lambda x: x, lambda x: x[:, 1:5], lambda x: x[:, 3:5], lambda x: x[:2], lambda x: x[:, 2:6:2]],
    ids=["whole", "overlapping", "within", "another dimension", "with a step"],
)
def test_a_scatter_that_is_read_otherwise_stays(read):
    after = ops_after(TIDYING, one_scatter(read), torch.randn(4, 8), torch.randn(4, 4))
    assert after.count("slice_scatter.default") == 1


def test_another_dtype_is_not_what_was_scattered():
    def forward(x, y):
        x = x * 2
        x[:, :3].copy_(y)
        return x[:, :3] + 1

    after = ops_after([ScatterSplitReplacementPass], forward, torch.randn(4, 8), torch.randn(4, 3).double())
    assert "copy.default" in after or "convert_element_type.default" in " ".join(after)


def test_what_the_caller_gets_keeps_its_strides():
    def forward(x, y):
        x = x * 2
        x[:, :3] = y
        return x[:, :3]

    after = ops_after([ScatterSplitReplacementPass], forward, torch.randn(4, 8), torch.randn(4, 3))
    assert "slice_scatter.default" in after


@pytest.mark.parametrize(
    ("parts", "wanted"),
    [
        (lambda x: (x[..., :4], x[..., 4:]), "split.Tensor"),
        (lambda x: (x[..., 4:], x[..., :4], x[..., :4]), "split.Tensor"),
        (lambda x: (x[:, :2], x[:, 2:7], x[:, -1:]), "split_with_sizes.default"),
        (lambda x: (*x.split([4, 4], 1), *x.chunk(2, -1)), "split.Tensor"),
        (lambda x: (x[:3], x[3:]), "split.Tensor"),
    ],
    ids=["halves", "halves read twice", "other sizes", "two splits", "rows"],
)
def test_slices_that_make_up_a_tensor_are_one_split(parts, wanted):
    def forward(x):
        return tuple(part.sin() * i for i, part in enumerate(parts(x)))

    after = ops_after([SplitCoalescingPass], forward, torch.randn(5, 8))
    assert [name for name in after if "split" in name or "slice" in name] == [wanted]


@pytest.mark.parametrize(
    "parts",
    [
        lambda x: (x[:, :4], x[:, 5:]),
        lambda x: (x[:, :5], x[:, 4:]),
        lambda x: (x[:, ::2], x[:, 1::2]),
        lambda x: (x[:, :4], x[:3]),
    ],
    ids=["gap", "overlap", "steps", "dimensions"],
)
def test_other_slices_stay(parts):
    def forward(x):
        return tuple(part.sin() for part in parts(x))

    after = ops_after([SplitCoalescingPass], forward, torch.randn(5, 8))
    assert not [name for name in after if "split" in name]


def turned_by_slices(x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin


def turned_in_place(x, cos, sin):
    whole = x * 2
    q, k = whole.split([5, 3], 1)
    q.copy_(rotate(q, cos, sin))
    k.copy_(rotate(k, cos, sin))
    return whole[:, :5] + 1, whole[:, 5:] + 1


@pytest.mark.parametrize(("forward", "count"), [(turned_by_slices, 1), (turned_in_place, 2)])
def test_rotations_are_found_only_after_tidying(forward, count):
    inputs = torch.randn(5, 8, 32), torch.randn(5, 1, 32), torch.randn(5, 1, 32)
    assert ops_after([*TIDYING, FoldBlocksPass], forward, *inputs).count(str(rotation)) == count
    assert ops_after([NoOpEliminationPass, FoldBlocksPass], forward, *inputs).count(str(rotation)) < count
