"""Everything that decides what is compiled, by name and in the clear: a cache key is a hash of these.

A factor is a short text; long ones (a source file, a graph) are given by their hash, under a name
that says what it is a hash of.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import os
import platform
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import fx

from compdbg.compiler.code_hash import code_hash
from compdbg.compiler.config import CompilationConfig
from compdbg.compiler.config_values import shown
from compdbg.compiler.overrides import all_keys, get

_NOT_COMPILED = frozenset(
    {
        "cache_dir", "disable_cache", "debug_dump_path", "copy_outputs", "cudagraph_mode",
        "cudagraph_capture_sizes", "cudagraph_num_of_warmups", "inductor_passes", "pass_config.enable_all",
    }
)  # fmt: skip
"""Configuration that changes how compiled code is served, not what it is."""

_ENVIRONMENT = ("TORCHINDUCTOR_", "TORCH_COMPILE", "TORCHDYNAMO_", "TRITON_", "TORCH_LOGS_RANKS")
_PLACES = ("CACHE_DIR", "_DIR", "_PATH", "TRITON_HOME", "DEBUG", "TRACE")
"""Variables that name a place, or what to print: no part of what is compiled."""


@functools.cache
def machine_factors() -> dict[str, str]:
    """Versions and hardware; the same for the life of a process."""
    found = {
        "compdbg": _own_sources(),
        "torch": torch.__version__,
        "torch build": str(torch.version.git_version),
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "triton": _version("triton"),
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "threads": str(torch.get_num_threads()),
    }
    if torch.cuda.is_available():
        device = torch.cuda.get_device_properties(torch.cuda.current_device())
        found["gpu"] = f"{device.name} sm_{device.major}{device.minor}"
        found["cuda"] = str(torch.version.cuda)
    return found


def environment_factors() -> dict[str, str]:
    """Variables that torch's compilers read."""
    return {
        f"env {name}": value
        for name, value in sorted(os.environ.items())
        if name.startswith(_ENVIRONMENT) and not any(place in name for place in _PLACES)
    }


def state_factors() -> dict[str, str]:
    """torch's global state as the trace sees it."""
    return {
        "default dtype": str(torch.get_default_dtype()),
        "default device": str(torch.get_default_device()),
        "grad mode": _grad_mode(),
        "autocast": _autocast(),
        "matmul precision": torch.get_float32_matmul_precision(),
        "deterministic": str(torch.are_deterministic_algorithms_enabled()),
        "world size": str(_world_size()),
    }


def config_factors(config: CompilationConfig) -> dict[str, str]:
    """The effective configuration, key by key, less what only concerns serving."""
    found = {}
    for key in all_keys(CompilationConfig):
        value = get(config, key)
        if key not in _NOT_COMPILED and not hasattr(value, "__struct_fields__"):
            found[f"config {key}"] = shown(value)
    if config.use_inductor_graph_partition:
        # Where Inductor cuts, and whether the parts are captured, is part of what it makes.
        found["config use_inductor_graph_partition.cuts"] = shown(config.splitting_ops)
        captured = config.cudagraph_mode.has_piecewise()
        found["config use_inductor_graph_partition.captured"] = shown(captured)
    return found


def torch_config_factors() -> dict[str, str]:
    """What the program changed in the configuration of torch's compilers."""
    import torch._functorch.config
    import torch._inductor.config

    found = {}
    for name, module in (("inductor", torch._inductor.config), ("functorch", torch._functorch.config)):
        for key, entry in module._config.items():
            if any(word in key for word in ("cache", "_dir", "debug", "trace", "custom_p")):
                continue
            value = getattr(module, key)
            if value != entry.default and isinstance(value, (bool, int, float, str, type(None), list, tuple)):
                found[f"{name} {key}"] = str(value)
    return found


def operator_factors(graphs: Iterable[fx.GraphModule]) -> dict[str, str]:
    """Schema, fake, and Python that is traced through, of every operator that is not torch's own.

    Also of those in graphs that an operator such as `cond` is given.
    """
    inner = (m for graph in graphs for m in graph.modules() if isinstance(m, fx.GraphModule))
    targets = (node.target for module in inner for node in module.graph.nodes)
    return operators_by_name({overload._schema.name for target in targets for overload in _overloads(target)})


def operators_by_name(names: Iterable[str]) -> dict[str, str]:
    """The same, of operators `namespace::name` as they are registered now; none of one that is gone."""
    found: dict[str, str] = {}
    for name in sorted(names):
        namespace, _, rest = name.partition("::")
        if namespace in ("aten", "prims", "prim", "inductor", "quantized"):
            continue
        for overload in _overloads(getattr(getattr(torch.ops, namespace), rest, None)):
            suffix = "" if overload._overloadname == "default" else f".{overload._overloadname}"
            label = f"op {name}{suffix}"
            found[f"{label} schema"] = f"{overload._schema} {sorted(map(str, overload.tags))}"
            fake = _fake_of(name)
            found[f"{label} fake"] = _code_of(fake)
            others = {key: value for key, value in _registered(name).items() if fake is None or key != "Meta"}
            found |= {f"{label} {key}": value for key, value in others.items()}
    return found


def file_hash(file: str) -> str:
    """Of a file that can't be read, or is none (`<string>`), its name is all that is known."""
    try:
        return hashlib.sha256(Path(file).read_bytes()).hexdigest()[:32]
    except OSError:
        return "unreadable"


def parameter_factors(model: Any) -> dict[str, str]:
    """Every parameter and buffer: type, shape, strides, device, and which are one tensor."""
    if not isinstance(model, torch.nn.Module):
        return {}
    seen: dict[int, str] = {}
    lines = []
    named = [
        *model.named_parameters(remove_duplicate=False),
        *model.named_buffers(remove_duplicate=False),
    ]
    for name, tensor in named:
        first = seen.setdefault(id(tensor), name)
        same = f" is {first}" if first != name else ""
        lines.append(
            f"{name} {tensor.dtype} {list(tensor.shape)} {tensor.stride()} {tensor.device}"
            f"{' grad' if tensor.requires_grad else ''}{same}"
        )
    text = "\n".join(lines)
    return {"parameters": f"{len(lines)}, {hashlib.sha256(text.encode()).hexdigest()[:32]}"}


def _overloads(target: Any) -> list[Any]:
    if isinstance(target, torch._ops.OpOverload):
        return [target]
    if isinstance(target, torch._ops.OpOverloadPacket):
        return [getattr(target, name) for name in target.overloads()]
    return []


def _fake_of(name: str) -> Any:
    from torch._library.custom_ops import OPDEFS
    from torch._library.simple_registry import singleton

    definition = OPDEFS.get(name)
    if definition is not None:
        return definition._abstract_fn
    kernel = singleton.find(name).fake_impl.kernel
    return None if kernel is None else kernel.func


def _registered(name: str) -> dict[str, str]:
    """Python kernels that tracing runs: those for fake tensors, and those that decompose."""
    found = {}
    for line in torch._C._dispatch_dump(name).splitlines():
        key, _, place = line.partition(": registered at ")
        file = place.partition(" :: ")[0].rpartition(":")[0]
        if (
            key in ("Meta", "CompositeImplicitAutograd[alias]")
            and file.endswith(".py")
            and not _is_torchs(file)
        ):
            found[key.removesuffix("[alias]")] = file_hash(file)
    return found


def _code_of(function: Any) -> str:
    """The code of a function, and all that it uses."""
    if function is None:
        return "none"
    function = inspect.unwrap(function)
    code = getattr(function, "__code__", None)
    return str(function) if code is None else f"{code_hash(function)} in {Path(code.co_filename).name}"


def _is_torchs(file: str) -> bool:
    return file.startswith(str(Path(torch.__file__).parent)) or file.startswith("<")


def _grad_mode() -> str:
    if torch.is_inference_mode_enabled():
        return "inference"
    return "grad" if torch.is_grad_enabled() else "no_grad"


def _autocast() -> str:
    devices = [d for d in ("cpu", "cuda") if torch.is_autocast_enabled(d)]
    return ", ".join(f"{d} {torch.get_autocast_dtype(d)}" for d in devices) or "off"


def _world_size() -> int:
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return int(torch.distributed.get_world_size())
    return 1


def _version(package: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return "none"


def _own_sources() -> str:
    """The version of this package, and a hash of the compiler's sources."""
    from compdbg import __version__

    home = Path(__file__).parent
    total = hashlib.sha256()
    for file in sorted(home.rglob("*.py")):
        total.update(file.read_bytes())
    return f"{__version__} {total.hexdigest()[:16]}"
