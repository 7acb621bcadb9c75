"""A vLLM platform on which the whole compile pipeline runs on a CPU, as an out-of-tree plugin.

vLLM's own CPU platform turns `VLLM_COMPILE` down to a plain trace. This one keeps what the
program asked for, and declares what the pipeline expects of a GPU build. `TOY_CUDAGRAPHS=1` and
`TOY_FUSIONS=1` let a program bring captures and fusion passes of its own.
"""

import os


def platform_class() -> str:
    return "compdbg_toy_platform.ToyPlatform"


def __getattr__(name):
    if name != "ToyPlatform":
        raise AttributeError(name)
    globals()[name] = made = _make()
    return made


KEPT = ("mode", "backend", "cudagraph_capture_sizes", "cudagraph_mode", "ir_enable_torch_wrap")
CUDA_ONLY = (
    "fuse_norm_quant",
    "fuse_act_quant",
    "fuse_rope_kvcache_cat_mla",
    "fuse_allreduce_rms",
    "fuse_attn_quant",
    "enable_qk_norm_rope_fusion",
)
"""Fusions whose pass classes vLLM imports on CUDA only."""


def _make():
    import torch
    from vllm.platforms.cpu import CpuPlatform

    class ToyPlatform(CpuPlatform):
        @classmethod
        def check_and_update_config(cls, vllm_config):
            config = vllm_config.compilation_config
            asked = {name: getattr(config, name) for name in KEPT}
            super().check_and_update_config(vllm_config)
            for name, value in asked.items():
                setattr(config, name, value)
            if not os.environ.get("TOY_FUSIONS"):
                for name in CUDA_ONLY:
                    setattr(config.pass_config, name, False)
            cls._declare_rotary_embedding()

        @classmethod
        def _declare_rotary_embedding(cls):
            """`FixFunctionalizationPass` names this op whether or not a graph holds it."""
            if not hasattr(torch.ops._C, "rotary_embedding"):
                cls._library = torch.library.Library("_C", "FRAGMENT")
                cls._library.define(
                    "rotary_embedding(Tensor positions, Tensor! query, Tensor!? key, int head_size, "
                    "Tensor cos_sin_cache, bool is_neox) -> ()"
                )

        @classmethod
        def fp8_dtype(cls):
            return torch.float8_e4m3fn

        @classmethod
        def get_static_graph_wrapper_cls(cls):
            return "vllm.compilation.cuda_graph.CUDAGraphWrapper"

        @classmethod
        def support_static_graph_mode(cls):
            return bool(os.environ.get("TOY_CUDAGRAPHS"))

        def get_global_graph_pool(self):
            return (0, 1)

        def graph_pool_handle(self):
            return (0, 1)

    ToyPlatform.__module__, ToyPlatform.__qualname__ = __name__, "ToyPlatform"
    return ToyPlatform
