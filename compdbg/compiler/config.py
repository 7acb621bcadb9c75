"""What an engineer may ask of the compiler, with vLLM's names for the same things.

`docs/compiler.md` explains every key. A value of None means "the usual": `effective.resolve`
fills it in, and says who changed what and why.
"""

from __future__ import annotations

import enum
from typing import Any, Literal

from compdbg.compiler.config_values import ConfigError, Strict, wrong_value


class CompilationMode(enum.IntEnum):
    """How much of the pipeline runs."""

    NONE = 0
    """Eager: the decorator does nothing."""
    STOCK_TORCH_COMPILE = 1
    """Plain `torch.compile`, guards kept, recompiling as it likes."""
    DYNAMO_TRACE_ONCE = 2
    """One trace, guards dropped, one graph for the stock backend: no split, no capture."""
    FULL = 3
    """All of it: split, passes, pieces by size, captures, cache."""
    VLLM_COMPILE = 3


class CUDAGraphMode(enum.Enum):
    """What is captured: nothing, the compiled pieces, or whole calls; for decode and for mixed batches."""

    NONE = "NONE"
    PIECEWISE = "PIECEWISE"
    FULL = "FULL"
    FULL_DECODE_ONLY = "FULL_DECODE_ONLY"
    FULL_AND_PIECEWISE = "FULL_AND_PIECEWISE"

    def decode_mode(self) -> CUDAGraphMode:
        """The mode for uniform decode batches."""
        full = (CUDAGraphMode.FULL_DECODE_ONLY, CUDAGraphMode.FULL_AND_PIECEWISE)
        return CUDAGraphMode.FULL if self in full else self

    def mixed_mode(self) -> CUDAGraphMode:
        """The mode for all other batches."""
        if self is CUDAGraphMode.FULL_DECODE_ONLY:
            return CUDAGraphMode.NONE
        return CUDAGraphMode.PIECEWISE if self is CUDAGraphMode.FULL_AND_PIECEWISE else self

    def has_piecewise(self) -> bool:
        return CUDAGraphMode.PIECEWISE in (self.decode_mode(), self.mixed_mode())

    def has_full(self) -> bool:
        return CUDAGraphMode.FULL in (self.decode_mode(), self.mixed_mode())


class DynamicShapesType(enum.Enum):
    """What a dynamic dimension becomes in the trace."""

    BACKED = "backed"
    """A symbol with the first call's size as hint; sizes 0 and 1 are assumed not to occur."""
    UNBACKED = "unbacked"
    """A symbol without a value: nothing can be specialised; a branch on it is an error."""
    BACKED_SIZE_OBLIVIOUS = "backed_size_oblivious"
    """Backed, but where 0 and 1 would be special the general answer is taken."""


class DynamicShapesConfig(Strict, frozen=True):
    """How dynamic dimensions are traced, and whether the trace's assumptions on them are checked."""

    type: DynamicShapesType = DynamicShapesType.BACKED
    evaluate_guards: bool = False
    """Keep the guards on shapes and raise on a call that violates one."""
    assume_32_bit_indexing: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.evaluate_guards and self.type is DynamicShapesType.UNBACKED:
            raise ConfigError("evaluate_guards has nothing to evaluate: unbacked sizes carry no guards")


class PassConfig(Strict, frozen=True):
    """Which passes of our own run after Inductor's. None: as usual; `enable_all` decides for those."""

    enable_all: bool | None = None
    """True: every pass that is not switched off by name; False: none that is not switched on by name."""
    eliminate_noops: bool | None = None
    fuse_norm_quant: bool | None = None
    fuse_act_quant: bool | None = None
    fuse_rope_kvcache: bool | None = None
    enable_qk_norm_rope_fusion: bool | None = None
    fuse_qkv_projection: bool | None = None
    fuse_attn_quant: bool | None = None
    fuse_allreduce_rms: bool | None = None
    enable_sp: bool | None = None
    fuse_gemm_comms: bool | None = None
    fuse_collectives: bool | None = None

    @classmethod
    def flags(cls) -> tuple[str, ...]:
        """The names of the switches, without `enable_all`."""
        return tuple(name for name in cls.__struct_fields__ if name != "enable_all")


class CompilationConfig(Strict, frozen=True):
    """All that the compiler can be told."""

    mode: CompilationMode = CompilationMode.FULL
    backend: str = "inductor"
    """`inductor`, `eager`, or the name of a compiler registered with `register_compiler`."""
    splitting_ops: list[str] | None = None
    """Operators at which the graph is split and that run as they are: `namespace::name`."""
    cudagraph_mode: CUDAGraphMode = CUDAGraphMode.NONE
    cudagraph_capture_sizes: list[int] | None = None
    cudagraph_num_of_warmups: int = 1
    compile_sizes: list[int | Literal["cudagraph_capture_sizes"]] | None = None
    """Sizes compiled on their own; the word `cudagraph_capture_sizes` stands for all of those."""
    compile_ranges: list[tuple[int, int]] | None = None
    """Inclusive ranges, each compiled with its bounds known; what they leave out is compiled too."""
    tune_single_sizes: bool = False
    """Let Inductor choose kernels by timing for sizes of `compile_sizes`: quicker code, a longer compile."""
    use_inductor_graph_partition: bool = False
    """Leave splitting to Inductor's scheduler, after all passes and fusions."""
    use_standalone_compile: bool = True
    """False: `InductorAdaptor` (compile_fx) in place of `InductorStandaloneAdaptor`."""
    pass_config: PassConfig = PassConfig()
    inductor_passes: list[Any] = []
    """Passes of one's own, run after ours: `InductorPass` objects, functions, or `module:object`."""
    inductor_compile_config: dict[str, Any] = {}
    dynamic_shapes_config: DynamicShapesConfig = DynamicShapesConfig()
    copy_outputs: bool = True
    """Give the caller copies of outputs that the next replay overwrites."""
    cache_dir: str | None = None
    disable_cache: bool = False
    debug_dump_path: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_positive("cudagraph_capture_sizes", self.cudagraph_capture_sizes or [])
        _check_positive("compile_sizes", [s for s in self.compile_sizes or [] if isinstance(s, int)])
        _check_ranges(self.compile_ranges or [])


def _check_positive(key: str, sizes: list[int]) -> None:
    wrong = [size for size in sizes if size < 1]
    if wrong:
        raise wrong_value(f"CompilationConfig.{key}", f"sizes start at 1; got {wrong}")


def _check_ranges(ranges: list[tuple[int, int]]) -> None:
    key, last = "CompilationConfig.compile_ranges", 0
    for low, high in sorted(ranges):
        if low < 1 or high < low:
            raise wrong_value(key, f"({low}, {high}) is not a range of sizes from 1 on")
        if low <= last:
            raise wrong_value(key, f"({low}, {high}) overlaps the range that ends at {last}")
        last = high
