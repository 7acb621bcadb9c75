"""Compiles a Triton kernel as a launch would, for a GPU that need not be there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

HOPPER = GPUTarget("cuda", 90, 32)
OPTIONS = ("num_warps", "num_stages")
POINTERS = {
    torch.bfloat16: "*bf16",
    torch.float16: "*fp16",
    torch.float32: "*fp32",
    torch.float8_e4m3fn: "*fp8e4nv",
    torch.int8: "*i8",
    torch.int32: "*i32",
    torch.int64: "*i64",
}


class Compiled:
    """Stands for a kernel: what is launched is compiled, and its PTX kept."""

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel
        self.ptx: list[str] = []

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        def launch(*args: Any, **named: Any) -> None:
            options = {name: named.pop(name) for name in OPTIONS if name in named}
            given = dict(zip(self.kernel.arg_names, args, strict=False)) | named
            self.ptx.append(compiled(self.kernel, given, options))

        return launch


def compiled(kernel: Any, given: dict[str, Any], options: dict[str, int]) -> str:
    """The PTX for arguments: tensors and strides are aligned as far as they are."""
    signature, constants, hints = {}, {}, {}
    for i, parameter in enumerate(kernel.params):
        value = given[parameter.name]
        if parameter.is_constexpr or value is None or (isinstance(value, int) and value == 1):
            signature[parameter.name], constants[i,] = "constexpr", value
        elif isinstance(value, float):
            signature[parameter.name] = "fp32"
        else:
            is_tensor = isinstance(value, torch.Tensor)
            signature[parameter.name] = POINTERS[value.dtype] if is_tensor else "i32"
            if is_tensor or value % 16 == 0:
                hints[i,] = [["tt.divisibility", 16]]
    source = ASTSource(kernel, signature, constexprs=constants, attrs=hints)
    as_asked = {"enable_fp_fusion": True, **options}  # said, since Triton 3.9 warns of its default
    ptx: str = triton.compile(source, target=HOPPER, options=as_asked).asm["ptx"]
    return ptx
