"""Which inputs a graph is known to write to, by how the write is said."""

from __future__ import annotations

import operator

import pytest
import torch
from torch.nn import functional as F

from compdbg.compiler.effects import written_inputs

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")]


@pytest.mark.parametrize(
    ("writes", "written"),
    [
        (lambda x: F.relu(x, inplace=True), {"l_x_"}),
        (lambda x: F.relu(x, inplace=False), set()),
        (lambda x: F.silu(x[:, 1:], inplace=True), {"l_x_"}),
        (lambda x: operator.ilshift(x.view(torch.int32), 1), {"l_x_"}),
        (lambda x: x.add_(1), {"l_x_"}),
        (lambda x: x + 1, set()),
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
