"""A piece that Inductor cannot compile: an op whose lowering raises."""

import torch
from engine import attention, call, make_config
from torch import nn
from torch._inductor.lowering import register_lowering
from vllm.compilation.decorators import support_torch_compile
from vllm.config import set_current_vllm_config


@torch.library.custom_op("toy::odd", mutates_args=())
def odd(x: torch.Tensor) -> torch.Tensor:
    return x + 1


@odd.register_fake
def _(x):
    return torch.empty_like(x)


@register_lowering(torch.ops.toy.odd)
def lower_odd(x):
    raise ValueError("no kernel for this")


@support_torch_compile
class Failing(nn.Module):
    def __init__(self, *, vllm_config, prefix=""):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = attention(x, x, x)
        return torch.ops.toy.odd(self.linear(x))


config = make_config()
with set_current_vllm_config(config), torch.inference_mode():
    model = Failing(vllm_config=config)
    call(model, config, torch.randn(16, 8))
