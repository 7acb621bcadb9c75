"""One compile a model, no guards: `TorchCompileWithNoGuardsWrapper` of one method of one instance.

The first call traces the method once, by Dynamo's ahead-of-time path, and drops every guard; from
then on a call runs Dynamo's code without a look at anything. `evaluate_guards` keeps the guards on
shapes, and a call that violates one raises.
"""

from __future__ import annotations

import contextlib
import inspect
import threading
import types
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from compdbg import probe
from compdbg.compiler.backends import Backend
from compdbg.compiler.config import CompilationConfig, CompilationMode, DynamicShapesType
from compdbg.compiler.dynamic_dims import DimSpec, dims_of, marked, tensors_in
from compdbg.compiler.effective import emit_config, resolve
from compdbg.compiler.spec_of import FirstDim
from compdbg.events import Decorated, Where

_names: Counter[str] = Counter()


class TorchCompileWithNoGuardsWrapper:
    """Called with the instance and the call's arguments; compiles on the first call."""

    def __init__(
        self,
        function: Callable[..., Any],
        dims: Mapping[str, DimSpec],
        config: CompilationConfig,
        *,
        owner: type,
        why_not: str | None = None,
    ) -> None:
        self.function = function
        self.dims = dims
        self.requested = config
        self.owner = owner
        self.why_not = why_not
        self.signature = inspect.signature(function)
        self.effective: CompilationConfig | None = None
        self._lock = threading.RLock()
        self._ready = False
        self._check: Callable[..., None] | None = None
        self._run: Callable[..., Any] = self._first_call

    def __call__(self, instance: Any, *args: Any, **kwargs: Any) -> Any:
        if self._check is not None:
            self._check(instance, args, kwargs)
        return self._run(instance, *args, **kwargs)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles of a model compile anew."""
        return type(None), ()

    def _first_call(self, instance: Any, *args: Any, **kwargs: Any) -> Any:
        with self._lock:
            if not self._ready:
                self._run = self._prepare(instance, args, kwargs)
                self._ready = True
        return self(instance, *args, **kwargs)

    def _prepare(self, instance: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Callable[..., Any]:
        effective = resolve(self.requested)
        config = self.effective = effective.config
        if config.mode is CompilationMode.NONE and self.why_not is None:
            self.why_not = "the mode is NONE"
        self._report()
        if self.why_not is not None:
            return self.function
        emit_config(self.requested, effective)
        if config.mode is CompilationMode.STOCK_TORCH_COMPILE:
            return torch.compile(self.function, backend=config.backend)  # type: ignore[no-any-return]
        return self._compile(instance, args, kwargs, config)

    def _compile(
        self, instance: Any, args: Sequence[Any], kwargs: Mapping[str, Any], config: CompilationConfig
    ) -> Callable[..., Any]:
        bound = self.signature.bind(instance, *args, **kwargs)
        bound.apply_defaults()
        shapes = config.dynamic_shapes_config.type
        arguments = marked(bound.arguments, self.dims, shapes)
        backend = Backend(self._graph_name(), config, _first_dims(arguments, self.dims))
        method = types.MethodType(self.function, instance)
        with _tracing_options(shapes):
            compiled = torch.compile(
                method,
                fullgraph=True,
                dynamic=False,
                backend=backend,
                options={"guard_filter_fn": self._guard_filter},
            )
            result = compiled.aot_compile(_call_with(self.signature, arguments))
        result.disable_guard_check()
        return result.fn  # type: ignore[no-any-return]

    def _guard_filter(self, guards: Sequence[Any]) -> list[bool]:
        return [False] * len(guards)

    def _graph_name(self) -> str:
        """The class's name, and a number from its second compiled instance on."""
        method = self.function.__name__
        name = self.owner.__name__ if method == "forward" else f"{self.owner.__name__}.{method}"
        _names[name] += 1
        return name if _names[name] == 1 else f"{name}#{_names[name]}"

    def _report(self) -> None:
        if not probe.active():
            return
        code = self.function.__code__
        probe.emit(
            Decorated(
                target=self.function.__qualname__,
                dynamic_dims={name: list(dims_of(spec)) for name, spec in self.dims.items()},
                where=Where(code.co_filename, code.co_firstlineno, code.co_name),
                enabled=self.why_not is None,
                reason=self.why_not or "",
            )
        )


def _first_dims(arguments: Mapping[str, Any], dims: Mapping[str, DimSpec]) -> list[FirstDim]:
    """For each marked argument that holds tensors, its first dimension that varies."""
    found = []
    for name, spec in dims.items():
        first = next(iter(dims_of(spec)))
        tensor = next(tensors_in(arguments.get(name)), None)
        if tensor is not None:
            found.append(FirstDim(name, first, tensor.shape[first]))
    return found


def _call_with(
    signature: inspect.Signature, arguments: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The call's arguments again, without the instance."""
    bound = inspect.BoundArguments(signature, dict(arguments))
    return bound.args[1:], bound.kwargs


@contextlib.contextmanager
def _tracing_options(shapes: DynamicShapesType) -> Iterator[None]:
    oblivious = shapes is DynamicShapesType.BACKED_SIZE_OBLIVIOUS
    with (
        torch._dynamo.config.patch(enable_cpp_symbolic_shape_guards=False, enable_aot_compile=True),
        torch.fx.experimental._config.patch(backed_size_oblivious=oblivious),
    ):
        yield
