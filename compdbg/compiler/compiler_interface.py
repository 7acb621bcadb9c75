"""What compiles one piece: the interface, the compilers that come with us, the registry for others."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from compdbg.compiler.codegen import graph_code
from compdbg.compiler.config import CompilationConfig
from compdbg.compiler.config_values import ConfigError
from compdbg.compiler.graph_data import dump_graph, load_graph
from compdbg.compiler.near_names import nearest
from compdbg.compiler.operator_text import short_operator_text

Runnable = Callable[..., Any]
"""Takes a piece's inputs, flat; returns a tuple or list of its outputs."""


class CompilerInterface(ABC):
    """A compiler of pieces. Register one's own with `register_compiler`, name it as `backend`."""

    name: str
    uses_inductor = False
    """Whether Inductor's configuration and our passes are part of what it makes."""
    keeps = True
    """Whether what it makes will be saved; where not, it need not be able to."""

    @abstractmethod
    def compile(self, graph: fx.GraphModule, example_inputs: list[Any], options: dict[str, Any]) -> Runnable:
        """Compile a graph that returns a tuple, for fake inputs as given: ints are constants.

        `options` are Inductor's config patches, empty for other compilers.
        """

    def save(self, runnable: Runnable) -> bytes | None:
        """What `load` makes the runnable from in another process; None if that can't be."""
        return None

    def load(self, data: bytes) -> Runnable:
        """The runnable from what `save` gave. Whatever it raises is a miss, and reported."""
        raise NotImplementedError(f"{self.name} saves nothing, so nothing can be loaded")

    def factors(self) -> dict[str, str]:
        """What, besides graph and options, decides what is made: name -> value, for the cache key."""
        return {}


class EagerAdaptor(CompilerInterface):
    """Runs the operators one by one, as the graph says: the pipeline without a compiler."""

    name = "eager"

    def compile(self, graph: fx.GraphModule, example_inputs: list[Any], options: dict[str, Any]) -> Runnable:
        return _EagerPiece(graph)

    def save(self, runnable: Runnable) -> bytes | None:
        assert isinstance(runnable, _EagerPiece)
        return dump_graph(runnable.graph)

    def load(self, data: bytes) -> Runnable:
        return _EagerPiece(load_graph(data))


class _EagerPiece:
    """A graph as straight-line Python."""

    def __init__(self, graph: fx.GraphModule) -> None:
        self.graph = graph
        self.run = graph_code(graph, "piece").build()

    def __call__(self, *inputs: Any) -> Any:
        return self.run(*inputs)


class InductorAdaptor(CompilerInterface):
    """`compile_fx` itself: for those who need its hooks. What it makes is not kept."""

    name = "inductor"
    uses_inductor = True

    def compile(self, graph: fx.GraphModule, example_inputs: list[Any], options: dict[str, Any]) -> Runnable:
        from torch._inductor.compile_fx import compile_fx

        caches_off = torch._inductor.config.patch(force_disable_caches=True)
        with _own_tracing_context(graph), caches_off, short_operator_text():
            return compile_fx(graph, example_inputs, config_patches=options)  # type: ignore[no-any-return]


class InductorStandaloneAdaptor(InductorAdaptor):
    """`torch._inductor.standalone_compile`: one self-contained artifact a piece, which can be kept."""

    def compile(self, graph: fx.GraphModule, example_inputs: list[Any], options: dict[str, Any]) -> Runnable:
        from torch._inductor import standalone_compile

        if not self.keeps:
            return super().compile(graph, example_inputs, options)
        with _own_tracing_context(graph), short_operator_text():
            return standalone_compile(  # type: ignore[no-any-return]
                graph,
                example_inputs,
                dynamic_shapes="from_tracing_context",  # "from_graph" wants a tensor among the results
                options={"config_patches": options},
                aot=True,
            )

    def save(self, runnable: Runnable) -> bytes | None:
        return runnable.serialize()  # type: ignore[attr-defined, no-any-return]

    def load(self, data: bytes) -> Runnable:
        from torch._inductor.standalone_compile import AOTCompiledArtifact

        with torch._functorch.config.patch(bundled_autograd_cache=True):
            return AOTCompiledArtifact.deserialize(data)  # type: ignore[no-any-return]


@contextlib.contextmanager
def _own_tracing_context(graph: fx.GraphModule) -> Iterator[None]:
    with torch._guards.tracing(torch._guards.TracingContext(_fake_mode_of(graph))):
        yield


def _fake_mode_of(graph: fx.GraphModule) -> FakeTensorMode:
    """That of its fake tensors; of a graph that only reckons with numbers, one for the same sizes."""
    values = [node.meta.get("example_value") for node in graph.graph.nodes]
    fake_mode = next((v.fake_mode for v in values if hasattr(v, "fake_mode")), None)
    environments = (v.node.shape_env for v in values if isinstance(v, torch.SymInt | torch.SymFloat))
    return fake_mode or FakeTensorMode(shape_env=next(environments, None) or ShapeEnv())


_registry: dict[str, Callable[[CompilationConfig], CompilerInterface]] = {
    "eager": lambda config: EagerAdaptor(),
    "inductor": lambda config: (
        InductorStandaloneAdaptor() if config.use_standalone_compile else InductorAdaptor()
    ),
}


def register_compiler(name: str, make: Callable[[CompilationConfig], CompilerInterface]) -> None:
    """Make `backend=name` use the compiler that `make` (a class will do) gives for a configuration."""
    _registry[name] = make


def is_registered(backend: str) -> bool:
    return backend in _registry


def check_backend(backend: str, said_by: str = "") -> None:
    """Raise ConfigError, with the nearest name, where no compiler has that name; `said_by` whom."""
    if not is_registered(backend):
        whose = f", which {said_by} asks for" if said_by else ""
        hint = nearest(backend, _registry)
        hint += " " if hint.endswith("?") else "; "
        raise ConfigError(
            f"no compiler is registered as backend {backend!r}{whose}{hint}"
            "register_compiler names one of your own, before the model's first call"
        )


def check_inductor_options(options: Iterable[str]) -> None:
    """Raise ConfigError, with the nearest name, for a setting that Inductor does not have."""
    known = torch._inductor.list_options() if options else ()
    for name in options:
        if name not in known:
            hint = nearest(name, known, few=False)
            raise ConfigError(f"inductor_compile_config: Inductor has no setting {name!r}{hint}")


def uses_inductor(config: CompilationConfig) -> bool:
    """Whether passes run in what a configuration names, which may also be a compiler of the user's."""
    return is_registered(config.backend) and make_compiler(config).uses_inductor


def make_compiler(config: CompilationConfig) -> CompilerInterface:
    """The compiler that a configuration names; raises ConfigError with the nearest name."""
    check_backend(config.backend)
    return _registry[config.backend](config)
