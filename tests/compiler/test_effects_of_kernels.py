"""What a user's Triton kernel stores to is known to be written, also where torch can't read the kernel."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

pytest.importorskip("triton")

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget

from compdbg.compiler.effects import written_inputs

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")]


@triton.jit
def add_one(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) + 1, mask=i < n)


def added(x, scratch):
    add_one[(1,)](x, scratch, x.shape[0], BLOCK=16)
    return scratch * 2


@pytest.fixture
def launches(monkeypatch):
    """Dynamo takes launches of kernels into its graphs, as with a GPU."""
    monkeypatch.setattr("torch.utils._triton.has_triton", lambda *args: True)
    monkeypatch.setattr("torch.utils._triton.has_triton_package", lambda: True)
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def graph_of(function, *inputs):
    graphs = []

    def backend(module, inputs):
        graphs.append(module.graph)
        return lambda *args: [torch.zeros(8)]

    torch.compile(function, backend=backend, fullgraph=True, dynamic=True)(*inputs)
    return graphs[0]


def test_a_kernel_that_can_be_read(launches, monkeypatch):
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")  # said, since Triton 3.9 warns of its default
    target = SimpleNamespace(get_current_target=lambda: GPUTarget("cuda", 90, 32))
    monkeypatch.setattr(type(triton.runtime.driver), "active", target)
    graph = graph_of(added, torch.ones(8), torch.zeros(8))
    assert written_inputs(graph) == {"l_scratch_"}


def test_a_kernel_that_cannot_be_read(launches, monkeypatch):
    def fails(*args):
        raise RuntimeError("no such attribute in this torch")

    graph = graph_of(added, torch.ones(8), torch.zeros(8))
    monkeypatch.setattr("torch._higher_order_ops.triton_kernel_wrap.get_mutated_tensors", fails)
    assert written_inputs(graph) == {"l_x_", "l_scratch_"}
