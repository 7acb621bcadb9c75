"""A model of three equal layers, compiled in pieces by vLLM and called at several batch sizes."""

import sys

import torch
from engine import attention, call, digest, make_config
from torch import nn
from vllm.compilation.decorators import support_torch_compile
from vllm.config import set_current_vllm_config

WIDTH = 32


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x):
        q, k, v = self.qkv(x).split(WIDTH, dim=-1)
        return x + torch.relu(self.out(attention(q, k, v)))


@support_torch_compile
class Toy(nn.Module):
    def __init__(self, *, vllm_config, prefix=""):
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x * 2
        for layer in self.layers:
            x = layer(x)
        return x + 1


config = make_config(backend=sys.argv[1], compile_sizes=[4])
torch.manual_seed(0)
with set_current_vllm_config(config), torch.inference_mode():
    model = Toy(vllm_config=config)
    for batch in (16, 4, 5, 16, 5):
        x = torch.randn(batch, WIDTH)
        y = call(model, config, x)
        torch.testing.assert_close(y, model.forward(x))
        print(batch, digest(y))
