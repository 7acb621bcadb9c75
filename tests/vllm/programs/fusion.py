"""vLLM's own RMSNorm+quantisation fusion: its patterns know epsilons 1e-5 and 1e-6, and no other."""

import sys

import cuda_ops  # declares the ops before vLLM's fusion passes name them
import torch
import vllm.ir.ops
from engine import attention, call, digest, make_config
from torch import nn
from vllm.compilation.decorators import support_torch_compile
from vllm.compilation.passes import pass_manager
from vllm.compilation.passes.fusion.rms_quant_fusion import RMSNormQuantFusionPass
from vllm.config import set_current_vllm_config
from vllm.config.compilation import PassConfig
from vllm.ir import enable_torch_wrap

WIDTH = 64
EPSILON = float(sys.argv[1])

# vLLM imports the class on CUDA only.
pass_manager.RMSNormQuantFusionPass = RMSNormQuantFusionPass


def quantised(x, scale):
    result = torch.empty(x.shape, dtype=cuda_ops.FP8, device=x.device)
    torch.ops._C.static_scaled_fp8_quant(result, x, scale, (-1, -1))
    return result


@support_torch_compile
class Normed(nn.Module):
    def __init__(self, *, vllm_config, prefix=""):
        super().__init__()
        self.weights = nn.ParameterList(nn.Parameter(torch.ones(WIDTH, dtype=torch.bfloat16)) for _ in "ab")
        self.scale = nn.Parameter(torch.tensor([0.05]), requires_grad=False)
        self.linear = nn.Linear(WIDTH, WIDTH, bias=False, dtype=torch.bfloat16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for weight in self.weights:
            normed = vllm.ir.ops.rms_norm(x, weight, EPSILON)
            y = self.linear(quantised(normed, self.scale).to(torch.bfloat16))
            x = x + attention(y, y, y)
        return x


config = make_config(
    custom_ops=["none", "+quant_fp8"],
    pass_config=PassConfig(fuse_norm_quant=True, fuse_act_quant=False, fuse_rope_kvcache_cat_mla=False),
)
torch.manual_seed(0)
with set_current_vllm_config(config), torch.inference_mode(), enable_torch_wrap(True):
    model = Normed(vllm_config=config)
    x = torch.randn(16, WIDTH, dtype=torch.bfloat16)
    print(digest(call(model, config, x)))
    print("fused kernels that ran:", len(cuda_ops.fused_calls))
