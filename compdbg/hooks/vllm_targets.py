"""Every name of vLLM that we touch, in one place; nothing else of ours depends on vLLM's inside."""

from __future__ import annotations

from compdbg.hooks.base import Target

SEEN = "vllm 0.33"

_BACKENDS = "vllm.compilation.backends"
_DECORATORS = "vllm.compilation.decorators"
_PIECEWISE = "vllm.compilation.piecewise_backend"
_PASSES = "vllm.compilation.passes.pass_manager:PostGradPassManager"

SHOULD_IGNORE = Target(f"{_DECORATORS}:_should_ignore_torch_compile", ("cls",), SEEN)
AOT_LOAD = Target(f"{_DECORATORS}:_try_load_aot_compiled_fn", ("model", "aot_compilation_path"), SEEN)
AOT_VERIFY = Target(f"{_DECORATORS}:_verify_source_unchanged", (), SEEN)

AOT_REBUILD = Target(
    "vllm.compilation.caching:reconstruct_serializable_fn_from_mega_artifact",
    ("state", "standalone_compile_artifacts"),
    SEEN,
)

_WRAPPER = "vllm.compilation.wrapper:TorchCompileWithNoGuardsWrapper"
BYTECODE_HOOK = Target(f"{_WRAPPER}.bytecode_hook", ("old_code", "new_code"), SEEN)
BYTECODE_SWAP = Target(f"{_WRAPPER}._dispatch_to_compiled_code", (), SEEN)

BACKEND_CALL = Target(f"{_BACKENDS}:VllmBackend.__call__", ("graph", "example_inputs"), SEEN)
SPLIT = Target(f"{_BACKENDS}:split_graph", ("graph", "splitting_ops"), SEEN)
COMPILE = Target(f"{_BACKENDS}:CompilerManager.compile", ("graph", "compile_range", "graph_index"), SEEN)
LOAD = Target(f"{_BACKENDS}:CompilerManager.load", ("compile_range", "graph_index"), SEEN)
PIECE_RANGES = Target(f"{_PIECEWISE}:PiecewiseBackend.compile_all_ranges", (), SEEN)
PIECE_MADE = Target(f"{_PIECEWISE}:PiecewiseBackend.__init__", (), SEEN)
PIECE_RANGE = Target(f"{_PIECEWISE}:PiecewiseBackend._find_range_for_shape", ("runtime_shape",), SEEN)

PASSES_CONFIGURED = Target(f"{_PASSES}.configure", (), SEEN)
PASS_ADDED = Target(f"{_PASSES}.add", (), SEEN)
PASSES_CALL = Target(f"{_PASSES}.__call__", ("graph",), SEEN)

WRAPPER_MADE = Target("vllm.compilation.cuda_graph:CUDAGraphWrapper.__init__", ("runnable",), SEEN)
CAPTURE_POOL = Target("vllm.compilation.cuda_graph:capture_pool", (), SEEN)
DISPATCH = Target("vllm.v1.cudagraph_dispatcher:CudagraphDispatcher.dispatch", ("num_tokens",), SEEN)

CONFIG_MADE = Target("vllm.config.vllm:VllmConfig.__post_init__", (), SEEN)
CONFIG_CLASSES = (
    Target("vllm.config.compilation:CompilationConfig", (), SEEN),
    Target("vllm.config.compilation:PassConfig", (), SEEN),
    Target("vllm.config.compilation:DynamicShapesConfig", (), SEEN),
)

VALIDATE_ENVIRON = Target("vllm.platforms.interface:Platform.validate_environ", ("hard_fail",), SEEN)

TARGETS = (
    SHOULD_IGNORE, AOT_LOAD, AOT_VERIFY, AOT_REBUILD, BYTECODE_HOOK, BYTECODE_SWAP, BACKEND_CALL, SPLIT,
    COMPILE, LOAD, PIECE_RANGES, PIECE_MADE, PIECE_RANGE, PASSES_CONFIGURED, PASS_ADDED, PASSES_CALL,
    WRAPPER_MADE, CAPTURE_POOL, DISPATCH, CONFIG_MADE, *CONFIG_CLASSES, VALIDATE_ENVIRON,
)  # fmt: skip
