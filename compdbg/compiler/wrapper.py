"""One compile a model, no guards: `TorchCompileWithNoGuardsWrapper` of one method of one instance.

The first call traces the method once, by Dynamo's ahead-of-time path, or loads what an earlier
process kept; every guard is dropped. From then on a call runs Dynamo's code without a look at
anything. `evaluate_guards` keeps the guards on shapes, and a call that violates one raises.
"""

from __future__ import annotations

import contextlib
import inspect
import threading
import time
import types
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from compdbg import probe
from compdbg.compiler.backends import Backend
from compdbg.compiler.buffer_writes import check_no_buffer_is_assigned
from compdbg.compiler.capture_rules import callers_line
from compdbg.compiler.compiler_interface import check_backend, check_inductor_options, uses_inductor
from compdbg.compiler.config import CompilationConfig, CompilationMode, CUDAGraphMode, DynamicShapesType
from compdbg.compiler.config_values import ConfigError
from compdbg.compiler.dropped_guards import guard_check, kept_guards
from compdbg.compiler.dynamic_dims import DimSpec, dims_of, marked, tensors_in
from compdbg.compiler.effective import emit_config, resolve
from compdbg.compiler.guard_data import GuardRecord
from compdbg.compiler.guard_kinds import record_guards
from compdbg.compiler.model_cache import ModelCache
from compdbg.compiler.passes.pass_manager import available_passes
from compdbg.compiler.spec_of import FirstDim
from compdbg.events import CompileError, Decorated, Span, Where

_names: Counter[str] = Counter()


class _NothingToCompile(Exception):
    """The trace came to its end, and its graph is empty."""


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
        self.aot_compiled: Any = None
        """Dynamo's compiled function, once there is one."""
        self.loaded = False
        """Whether it came from the cache."""
        self._lock = threading.RLock()
        self._check: Callable[..., None] | None = None
        self._run: Callable[..., Any] = self._first_call

    def __call__(self, instance: Any, *args: Any, **kwargs: Any) -> Any:
        if self._check is not None:
            self._check(instance, *args, **kwargs)
        return self._run(instance, *args, **kwargs)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles of a model compile anew."""
        return type(None), ()

    def _first_call(self, instance: Any, *args: Any, **kwargs: Any) -> Any:
        with self._lock:
            if self.effective is None:
                try:
                    self._run = self._prepare(instance, args, kwargs)
                except ConfigError as error:
                    self._tell_refused(error)
                    # who reads it has to look at the configuration and not at how we came upon it
                    raise error.with_traceback(None) from error.__cause__
        return self(instance, *args, **kwargs)

    def _prepare(self, instance: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Callable[..., Any]:
        effective = resolve(self.requested, available_passes())
        config = effective.config
        if config.mode is CompilationMode.NONE and self.why_not is None:
            self.why_not = "the mode is NONE"
        self._report()
        emit_config(self.requested, effective)
        if self.why_not is not None:
            run = self.function
        elif config.mode is CompilationMode.STOCK_TORCH_COMPILE:
            run = torch.compile(self.function, backend=config.backend)
        else:
            check_backend(config.backend, effective.set_by("backend"))
            if uses_inductor(config):
                check_inductor_options(config.inductor_compile_config)
            try:
                run = self._compile(instance, args, kwargs, config)
            except _NothingToCompile:
                self.why_not = "its graph holds no operation"
                self._report()
                run = self.function
        self.effective = config
        return run

    def _compile(
        self, instance: Any, args: Sequence[Any], kwargs: Mapping[str, Any], config: CompilationConfig
    ) -> Callable[..., Any]:
        started = time.perf_counter()
        bound = self.signature.bind(instance, *args, **kwargs)
        bound.apply_defaults()
        name = self._graph_name()
        cache = ModelCache(name, config, self.function)
        factors = cache.factors(instance, bound.arguments)
        found = cache.load(factors, bound.arguments)
        if found is None:
            self.aot_compiled, known = self._trace(instance, bound.arguments, config, name, cache, factors)
        else:
            self.aot_compiled, known, self.loaded = found.function, found.guards, True
        self.aot_compiled.disable_guard_check()
        self._check = guard_check(
            self.aot_compiled,
            self.function,
            evaluate=config.dynamic_shapes_config.evaluate_guards,
            known=known,
            loaded=self.loaded,
        )
        what = "load" if self.loaded else "compile"
        elapsed = time.perf_counter() - started
        probe.emit(Span(name=f"{what} {name}", duration_s=elapsed, category="compdbg.compiler"))
        return self.aot_compiled.fn  # type: ignore[no-any-return]

    def _trace(
        self,
        instance: Any,
        real: Mapping[str, Any],
        config: CompilationConfig,
        name: str,
        cache: ModelCache,
        factors: dict[str, str],
    ) -> tuple[Any, GuardRecord]:
        """Trace and compile; what can be kept is kept."""
        shapes = config.dynamic_shapes_config.type
        arguments = marked(real, self.dims, shapes)
        backend = Backend(name, config, _first_dims(arguments, self.dims), cache.what)
        guards: list[Any] = []

        def keep(entries: Sequence[Any]) -> list[bool]:
            guards.extend(entries)
            return kept_guards(entries, evaluate=config.dynamic_shapes_config.evaluate_guards)

        with _tracing_options(shapes):
            compiled = torch.compile(
                types.MethodType(self.function, instance),
                fullgraph=True,
                dynamic=False,
                backend=backend,
                options={"guard_filter_fn": keep},
            )
            try:
                result = compiled.aot_compile(_call_with(self.signature, arguments))
            except AssertionError:  # of torch, which looks for a graph
                if backend.called:
                    raise
                raise _NothingToCompile from None
        if config.cudagraph_mode is not CUDAGraphMode.NONE:
            check_no_buffer_is_assigned(result, instance)
        assert backend.result is not None
        known = record_guards(guards, backend.shapes)
        cache.store(result, backend.result, known, factors, real)
        return result, known

    def _graph_name(self) -> str:
        """The class's name, and a number from its second compiled instance on."""
        method = self.function.__name__
        name = self.owner.__name__ if method == "forward" else f"{self.owner.__name__}.{method}"
        _names[name] += 1
        return name if _names[name] == 1 else f"{name}#{_names[name]}"

    def _report(self) -> None:
        code = self.function.__code__
        probe.emit(
            Decorated(
                target=self.function.__qualname__,
                dynamic_dims={name: list(dims_of(spec)) for name, spec in self.dims.items()},
                where=Where(code.co_filename, code.co_firstlineno, code.co_name),
                enabled=self.why_not is None,
                reason=self.why_not or "",
                owner=self.owner.__name__,
            )
        )

    def _tell_refused(self, error: ConfigError) -> None:
        """Record that a configuration can't be used, at the line of the call that needed it."""
        code = self.function.__code__
        name, text = type(error).__name__, str(error)
        probe.emit(
            CompileError(
                frame=f"{code.co_filename}:{code.co_firstlineno}:{code.co_qualname}",
                compile_id="",
                stage="config",
                error=name,
                message=text,
                root_error=name,
                root_message=text,
                where=callers_line(),
                backend=self.requested.backend,
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
    """Torch's settings for one trace; that caches are off concerns torch's, and ours asks itself."""
    oblivious = shapes is DynamicShapesType.BACKED_SIZE_OBLIVIOUS
    with (
        torch._dynamo.config.patch(enable_cpp_symbolic_shape_guards=False, enable_aot_compile=True),
        torch.fx.experimental._config.patch(backed_size_oblivious=oblivious),
        torch._inductor.config.patch(force_disable_caches=False),
    ):
        yield
