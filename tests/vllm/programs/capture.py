"""vLLM's own dispatcher and CUDA-graph wrapper on a CPU, over a stand-in for `torch.cuda.CUDAGraph`.

The stand-in runs the captured function again on replay, and copies its result where the capture left it.
With the argument `refuse`, a capture of size 4 is refused, as CUDA refuses an op that synchronises.
"""

import contextlib
import sys

import torch
from engine import ATTENTION, attention, call, digest, make_config
from torch import nn
from torch.utils import _pytree as pytree
from vllm.compilation import cuda_graph
from vllm.compilation.decorators import support_torch_compile
from vllm.config import CompilationConfig, CUDAGraphMode, set_current_vllm_config
from vllm.forward_context import get_forward_context
from vllm.platforms import current_platform
from vllm.v1.cudagraph_dispatcher import CudagraphDispatcher


class ReplayedCall:
    """What a capture is here: the function, its arguments and the buffers of its result."""

    function = None

    def replay(self):
        for kept, fresh in zip(
            pytree.tree_leaves(self.output), pytree.tree_leaves(self.function(*self.args)), strict=True
        ):
            if isinstance(kept, torch.Tensor):
                kept.copy_(fresh)


@contextlib.contextmanager
def capturing(graph, **options):
    context = get_forward_context()
    yield
    if sys.argv[1:] == ["refuse"] and context.batch_descriptor.num_tokens == 4:
        raise RuntimeError("operation not permitted when stream is capturing")


torch.cuda.CUDAGraph = ReplayedCall
torch.cuda.graph = capturing
cuda_graph.current_stream = lambda: None
cuda_graph.weak_ref_tensors = lambda tensors: tensors

real_call = cuda_graph.CUDAGraphWrapper.__call__


def call_and_remember(self, *args, **kwargs):
    result = real_call(self, *args, **kwargs)
    for entry in self.concrete_cudagraph_entries.values():
        if entry.cudagraph is not None and entry.cudagraph.function is None:
            (compiled,) = self.runnable.range_entries.values()
            entry.cudagraph.function = compiled.runnable
            entry.cudagraph.args, entry.cudagraph.output = args, entry.output
    return result


cuda_graph.CUDAGraphWrapper.__call__ = call_and_remember


@support_torch_compile
class Captured(nn.Module):
    def __init__(self, *, vllm_config, prefix=""):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            y = layer(x)
            x = x + attention(y, y, y)
        return x


SIZES = [4, 8]
config = make_config(
    backend="eager",
    splitting_ops=[*CompilationConfig._attention_ops, ATTENTION],
    cudagraph_mode=CUDAGraphMode.PIECEWISE,
    cudagraph_capture_sizes=SIZES,
)
settings = config.compilation_config
settings.cudagraph_mode = CUDAGraphMode.PIECEWISE
settings.cudagraph_capture_sizes, settings.max_cudagraph_capture_size = SIZES, SIZES[-1]

current_platform.validate_environ(hard_fail=True)
torch.manual_seed(0)
with set_current_vllm_config(config), torch.inference_mode():
    model = Captured(vllm_config=config)
    dispatcher = CudagraphDispatcher(config)
    dispatcher.initialize_cudagraph_keys(CUDAGraphMode.PIECEWISE)
    buffer = torch.randn(64, 8)
    call(model, config, buffer[:16])
    for batch in (8, 4, 3, 8, 5, 20):
        mode, padded = dispatcher.dispatch(num_tokens=batch)
        buffer.normal_()
        x = buffer[: padded.num_tokens]
        y = call(
            model,
            config,
            x,
            num_tokens=padded.num_tokens,
            cudagraph_runtime_mode=mode,
            batch_descriptor=padded,
        )
        torch.testing.assert_close(y, model.forward(x))
        print(batch, padded.num_tokens, mode.name, digest(y))
