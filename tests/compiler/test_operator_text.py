"""What Inductor says of an operator stays short, however deep in a graph the operator stands."""

from __future__ import annotations

import pytest
import torch

from compdbg.compiler import CompilationConfig, support_torch_compile, use_config

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")]
LAYERS = 12
"""Each operator's argument is used twice by the next: Inductor's own text is 2**12 times the first's."""


@torch.library.custom_op("operator_text::blend", mutates_args=())
def blend(x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
    return x + residual


@blend.register_fake
def _(x, residual):
    return torch.empty_like(x)


@torch.library.custom_op("operator_text::refused", mutates_args=())
def refused(x: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    return x.clone()


@refused.register_fake
def _(x, sizes):
    return torch.empty_like(x)


@support_torch_compile
class Deep(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(LAYERS):
            x = torch.ops.operator_text.blend(x, x)
        return torch.ops.operator_text.refused(x, [1, 2])


@pytest.fixture
def refusing(monkeypatch):
    """Inductor's lowering of one operator fails."""
    from torch._inductor import lowering

    def fails(x, sizes):
        raise ValueError("not today")

    monkeypatch.setitem(lowering.lowerings, torch.ops.operator_text.refused.default, fails)


@pytest.mark.parametrize("standalone", [True, False])
def test_an_operator_deep_in_a_graph(refusing, standalone):
    from torch._inductor.exc import OperatorIssue

    before = OperatorIssue.operator_str
    with use_config(CompilationConfig(backend="inductor", use_standalone_compile=standalone)):
        model = Deep()
    with pytest.raises(Exception, match="not today") as caught:
        model(torch.ones(4, 8))
    text = str(caught.value)
    assert "target: operator_text.refused.default" in text
    assert "torch.float32 [" in text
    assert "args[1]: [1, 2]" in text
    assert len(text) < 4000
    assert OperatorIssue.operator_str is before
