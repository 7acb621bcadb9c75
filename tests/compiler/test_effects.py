"""Which inputs a graph is known to write to, by how the write is said."""

from __future__ import annotations

import contextlib
import operator

import pytest
import torch
from torch import nn
from torch._dynamo.exc import UncapturedHigherOrderOpError
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from compdbg.compiler import CompilationConfig, CUDAGraphMode, support_torch_compile, use_config
from compdbg.compiler.effects import written_inputs

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")]


def fill(x, other):
    x.fill_(other)


@pytest.fixture(autouse=True)
def library():
    """An operator of two overloads that write: which one is called, its packet does not say."""
    library = torch.library.Library("effects_test", "FRAGMENT")
    for overload, argument in (("tensor", "Tensor other"), ("number", "float other")):
        library.define(f"put.{overload}(Tensor(a!) x, {argument}) -> ()")
    for name in ("put.tensor", "put.number"):
        library.impl(name, fill, "CompositeExplicitAutograd")
        torch.library.register_fake(f"effects_test::{name}", lambda x, other: None, lib=library)
    yield
    library._destroy()


@pytest.mark.parametrize(
    ("writes", "written"),
    [
        (lambda x: F.relu(x, inplace=True), {"l_x_"}),
        (lambda x: F.relu(x, inplace=False), set()),
        (lambda x: F.silu(x[:, 1:], inplace=True), {"l_x_"}),
        (lambda x: operator.ilshift(x.view(torch.int32), 1), {"l_x_"}),
        (lambda x: x.add_(1), {"l_x_"}),
        (lambda x: x + 1, set()),
        (lambda x: F.relu_(input=x), {"l_x_"}),
        (lambda x: torch._foreach_add_([x[0], x[1]], 1), {"l_x_"}),
        (lambda x: torch.ops.effects_test.put(x[1:], 2.0), {"l_x_"}),
        (lambda x: torch.ops.effects_test.put(x, torch.ones(())), {"l_x_"}),
        (lambda x: F.relu(x, True), {"l_x_"}),
        (lambda x: F.dropout(x, 0.5, True, True), {"l_x_"}),
        (lambda x: x.__iadd__(1), {"l_x_"}),
        (lambda x: x.numpy().fill(2), {"l_x_"}),
        (lambda x: torch.func.vmap(lambda row: row[1:].mul_(2))(x[1:]), {"l_x_"}),
        (lambda x: torch.sort(x, out=(torch.empty(4, 4), torch.empty(4, 4, dtype=torch.long))), set()),
        (lambda x: torch.ops.aten.add(x, x, out=torch.empty(4, 4)), set()),
        (lambda x: F.batch_norm(torch.ones(2, 4), x[0], x[1], training=True), {"l_x_"}),
        (lambda x: F.batch_norm(torch.ones(2, 4), x[0], x[1]), set()),
        (lambda x: torch.batch_norm(x, None, None, x[0], x[1], True, 0.1, 0.1, False), {"l_x_"}),
        (lambda x: F.embedding(torch.zeros(2, dtype=torch.long), x, max_norm=1.0), {"l_x_"}),
        (lambda x: observed(torch.ones(4), x), {"l_x_"}),
    ],
)
def test_writes_of_every_kind(writes, written):
    assert written_inputs(graph_of(writes, torch.ones(4, 4))) == written


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_writes_within_a_branch_a_loop_and_a_checkpoint(mode):
    with mode(), where_torch_traces_it():
        graph = graph_of(inner_writes, *(torch.ones(3) for _ in range(5)))
    assert written_inputs(graph) == {"l_branch_", "l_loop_", "l_rows_", "l_again_"}


def test_tensors_that_lie_inside_memory_were_not_written_to():
    with torch.inference_mode():
        inside = torch.ones(3, 4)[1:]
        assert written_inputs(graph_of(lambda x: x + 1, inside)) == set()
        assert written_inputs(graph_of(lambda x: x.add_(1), inside)) == {"l_x_"}
        packed = torch.ones(6, 4)
        parts = [packed[:2], packed[2:4], packed[4:]]
        assert written_inputs(graph_of(lambda q, k, v: q + k + v, *parts)) == set()
    assert written_inputs(graph_of(lambda x: x + 1, torch.ones(3, 4)[1:])) == set()


@pytest.mark.parametrize("mode", ["PIECEWISE", "FULL"])
def test_what_a_captured_call_writes_within_a_branch_is_written_for_the_caller(mode):
    config = CompilationConfig(
        backend="eager", cudagraph_mode=CUDAGraphMode[mode], cudagraph_capture_sizes=[4, 8]
    )
    with use_config(config):
        model = InBranch()
    with torch.inference_mode(), where_torch_traces_it():
        for rows in (3, 3, 3, 4, 8, 9):
            x, seen = torch.full((rows, 2), 2.0), torch.full((rows, 2), 5.0)
            assert torch.equal(model(x, seen), torch.full((rows, 2), 12.0))
            assert torch.equal(seen, torch.full((rows, 2), 6.0))


@support_torch_compile(dynamic_arg_dims={"x": 0, "seen": 0})
class InBranch(nn.Module):
    def forward(self, x, seen):
        def add(taken):
            taken.add_(1)
            return taken * 2

        return torch.cond(x.sum() > 0, add, torch.clone, (seen,))


def observed(x, state):
    """Keeps the least and the largest value that it has seen, as an operator without an underscore."""
    on, zero_point = torch.ones(1, dtype=torch.long), torch.zeros(1, dtype=torch.int32)
    low, high, scale = state[0, :1], state[0, 1:2], state[0, 2:3]
    return torch.fused_moving_avg_obs_fake_quant(x, on, on, low, high, scale, zero_point, 0.1, 0, 255, -1)


def inner_writes(x, branch, loop, rows, again):
    def add(taken):
        taken[1:].add_(1)
        rows.add_(1)
        return taken * 2

    def double(i):
        loop.mul_(2)
        return (i + 1,)

    def stepped(taken):
        return taken.add_(1) * 2

    torch.while_loop(lambda i: i < 3, double, (torch.tensor(0),))
    return torch.cond(x.sum() > 0, add, torch.clone, (branch,)) + checkpoint(
        stepped, again, use_reentrant=False
    )


@contextlib.contextmanager
def where_torch_traces_it():
    """Torch 2.11 refuses writes to inputs within a branch or a loop."""
    try:
        yield
    except UncapturedHigherOrderOpError as error:
        if "do not support input mutation" not in str(error):
            raise
        pytest.skip("this torch refuses a write within a branch")


def graph_of(function, *inputs):
    graphs = []

    def backend(module, inputs):
        graphs.append(module.graph)
        return module.forward

    torch._dynamo.reset()
    torch.compile(function, backend=backend, fullgraph=True)(*inputs)
    return graphs[0]
