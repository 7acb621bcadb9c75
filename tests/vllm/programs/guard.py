"""A branch on the batch size, in a model whose guards are dropped: batch 4 runs the code of batch 16."""

import sys

import torch
from engine import call, digest, make_config
from torch import nn
from vllm.compilation.decorators import support_torch_compile
from vllm.config import set_current_vllm_config


@support_torch_compile
class Branching(nn.Module):
    def __init__(self, *, vllm_config, prefix=""):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] > 10:
            return self.linear(x) * 2
        return self.linear(x)


config = make_config(backend=sys.argv[1], splitting_ops=[], compile_sizes=[int(n) for n in sys.argv[2:]])
torch.manual_seed(0)
with set_current_vllm_config(config), torch.inference_mode():
    model = Branching(vllm_config=config)
    for batch in (16, 12, 4, 4):
        x = torch.randn(batch, 8)
        y = call(model, config, x)
        print(batch, digest(y), "as eager" if torch.allclose(y, model.forward(x)) else "wrong")
