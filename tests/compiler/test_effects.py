"""Which inputs a graph is known to write to, by how the write is said."""

from __future__ import annotations

import operator

import pytest
import torch
from torch.nn import functional as F

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
    ],
)
def test_writes_of_every_kind(writes, written):
    graphs = []

    def backend(module, inputs):
        graphs.append(module.graph)
        return module.forward

    torch._dynamo.reset()
    torch.compile(writes, backend=backend, fullgraph=True)(torch.ones(4, 4))
    assert written_inputs(graphs[0]) == written
