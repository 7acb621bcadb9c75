"""A piece made ready for one compile: a copy of its graph, fake inputs, shapes of their own.

Each compile gets a shape environment to itself, in which the batch size is a symbol with the
range's bounds, or a number. What the compiler assumes about it is recorded there, and nothing
that one compile assumes leaks into another, or back into Dynamo's trace.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Mapping
from typing import Any

import sympy
import torch
from msgspec import Struct
from torch import fx
from torch._dispatch.python import enable_python_dispatcher
from torch._dynamo.source import ConstantSource
from torch._prims_common import compute_required_storage_length
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, ShapeGuard
from torch.utils._sympy.value_ranges import ValueRanges

from compdbg.compiler.borders import evaluate, memory_of, value_of
from compdbg.compiler.config import DynamicShapesType
from compdbg.compiler.ranges import STATIC, UNBOUNDED, Range
from compdbg.compiler.traced_sizes import TracedSizes
from compdbg.compiler.unbacked_shapes import UnbackedShapes

_UNBACKED: Any = getattr(DimDynamic, "UNBACKED", None) or DimDynamic.SIZE_LIKE_UNBACKED


class Ready(Struct):
    """What a compiler is given, and the environment that collects what it assumes."""

    module: fx.GraphModule
    inputs: list[Any]
    environment: ShapeEnv
    sizes: dict[sympy.Symbol, Any]
    """Symbol of the trace -> the size that stands for it here: an int or a symbol."""
    names: dict[sympy.Expr, sympy.Symbol]
    """Symbol here -> that of the trace; a size that was specialised no longer tells its symbol."""
    lifted: list[torch.SymInt]

    @property
    def guards(self) -> list[ShapeGuard]:
        """What was assumed of sizes so far."""
        return [*self.environment.guards, *getattr(self.environment, "answered", ())]


def made_ready(
    module: fx.GraphModule,
    traced: TracedSizes,
    compile_range: Range,
    shapes: DynamicShapesType,
    lifted: Mapping[str, int],
) -> Ready:
    """A copy of a piece's graph for `compile_range`.

    `lifted` maps inputs that stand for a constant of the graph to its value: they become symbols,
    never plain ints, which would be baked in.
    """
    environment = UnbackedShapes() if shapes is DynamicShapesType.UNBACKED else ShapeEnv()
    mode = FakeTensorMode(shape_env=environment, allow_non_fake_inputs=True)
    made = _Fakes(environment, mode, traced, compile_range, shapes, _shared_memory(module.graph))
    graph = fx.Graph()
    graph.output(graph.graph_copy(module.graph, {}))
    ready = _make_module(module, graph)
    inputs: list[Any] = []
    constants: list[torch.SymInt] = []
    with torch._guards.tracing(None), mode, enable_python_dispatcher():
        for node in graph.find_nodes(op="placeholder"):
            if node.name in lifted:
                constants.append(made.constant(node.name, lifted[node.name]))
                inputs.append(constants[-1])
            else:
                inputs.append(made.value(value_of(node)))
        names = {
            size.node.expr: symbol for symbol, size in made.sizes.items() if isinstance(size, torch.SymInt)
        }
        with environment.ignore_fresh_unbacked_symbols():  # the compiler's own trace makes and binds its own
            _Propagate(ready, mode).run(*inputs)
    return Ready(ready, inputs, environment, made.sizes, names, constants)


def _make_module(module: fx.GraphModule, graph: fx.Graph) -> fx.GraphModule:
    owner = torch.nn.Module()
    for node in graph.find_nodes(op="get_attr"):
        name = str(node.target).partition(".")[0]
        setattr(owner, name, getattr(module, name))
    return fx.GraphModule(owner, graph)


def _shared_memory(graph: fx.Graph) -> frozenset[Any]:
    """The blocks of memory that more than one input lies in."""
    values = [value_of(node) for node in graph.find_nodes(op="placeholder")]
    blocks = Counter(_memory(value) for value in values if isinstance(value, torch.Tensor))
    return frozenset(block for block, count in blocks.items() if count > 1)


def _memory(tensor: torch.Tensor) -> Any:
    return memory_of(tensor), tensor.dtype


class _Propagate(fx.Interpreter):  # type: ignore[misc]
    """Runs a graph with fake values and notes them on the nodes."""

    def __init__(self, module: fx.GraphModule, mode: FakeTensorMode) -> None:
        super().__init__(module)
        self._mode = mode
        self.extra_traceback = False

    def run_node(self, n: fx.Node) -> Any:
        value = super().run_node(n)
        if n.op == "get_attr" and isinstance(value, torch.Tensor):
            value = self._mode.from_tensor(value)
        if n.op != "output":
            n.meta["example_value"] = value
            n.meta.pop("val", None)
        return value


class _Fakes:
    """Values of the trace, made anew in another environment; tensors that share memory still do."""

    def __init__(
        self,
        environment: ShapeEnv,
        mode: FakeTensorMode,
        traced: TracedSizes,
        compile_range: Range,
        shapes: DynamicShapesType,
        shared: frozenset[Any],
    ) -> None:
        self.sizes: dict[sympy.Symbol, Any] = {}
        self._environment = environment
        self._mode = mode
        self._traced = traced
        self._range = compile_range
        self._shapes = shapes
        self._shared = shared
        self._bases: dict[Any, torch.Tensor] = {}

    def value(self, old: Any) -> Any:
        if isinstance(old, torch.SymInt):
            return self.size(old)
        return self._tensor(old) if isinstance(old, torch.Tensor) else copy.copy(old)

    def size(self, old: Any) -> Any:
        if not isinstance(old, torch.SymInt):
            return old
        expr = old.node.expr
        for symbol in sorted(expr.free_symbols, key=str):
            if symbol not in self.sizes:
                self.sizes[symbol] = self._size_for(symbol, old)
        return evaluate(expr, self.sizes)

    def constant(self, name: str, value: int) -> torch.SymInt:
        """A lifted constant: any int, not only a size."""
        source = ConstantSource(f"constant_{name}")
        symbol = self._environment.create_symbol(
            value, source, DimDynamic.DYNAMIC, None, positive=None, do_not_specialize_zero_one=True
        )
        return self._environment.create_symintnode(symbol, hint=value, source=source)

    def _size_for(self, symbol: sympy.Symbol, old: torch.SymInt) -> Any:
        if symbol not in self._traced.batch:
            hint, bounds = self._traced.hint_of(symbol), self._traced.bounds_of(symbol)
            return self._new_symbol(str(symbol), hint, bounds)
        if self._range.is_single and self._range != STATIC:
            return self._range.low
        others = [size for s, size in self.sizes.items() if s in self._traced.batch]
        hint, within = self._traced.batch_hint(self._range), self._traced.narrowed(self._range)
        return self._new_symbol(f"{symbol}_{len(others)}", hint, within)

    def _new_symbol(self, name: str, hint: int, bounds: Range | None) -> Any:
        source = ConstantSource(f"size_{name}")
        unbacked = self._shapes is DynamicShapesType.UNBACKED
        symbol = self._environment.create_symbol(hint, source, _UNBACKED if unbacked else DimDynamic.DYNAMIC)
        if unbacked:
            self._environment.var_to_hint_override[symbol] = hint
            # An input binds it: tracing must not look for an operator that does.
            self._environment.pending_fresh_unbacked_symbols.clear()
        if bounds is not None:
            oblivious = self._shapes is not DynamicShapesType.BACKED
            low = bounds.low if oblivious else max(2, bounds.low)
            if unbacked and low == 1:
                low = 0  # no size is refused that eager takes: code for unbacked sizes checks their bounds
            high = bounds.high if bounds.high < UNBOUNDED else None
            known = self._environment.var_to_range[symbol]
            wanted = ValueRanges(low, known.upper if high is None else high)
            self._environment.var_to_range[symbol] = known & wanted
        node_hint = None if unbacked else hint
        return self._environment.create_symintnode(symbol, hint=node_hint, source=source)

    def _tensor(self, old: torch.Tensor) -> torch.Tensor:
        shape = [self.size(n) for n in old.shape]
        stride = [self.size(n) for n in old.stride()]
        offset = self.size(old.storage_offset())
        if _memory(old) in self._shared or offset != 0:
            tensor = self._base(old, shape, stride, offset).as_strided(shape, stride, offset)
        else:
            tensor = torch.empty_strided(shape, stride, dtype=old.dtype, device=old.device)
        wants_gradient = old.requires_grad and torch.is_grad_enabled()
        return tensor.detach().requires_grad_() if wants_gradient else tensor

    def _base(self, old: torch.Tensor, shape: list[Any], stride: list[Any], offset: Any) -> torch.Tensor:
        """One block of memory for each that the trace had."""
        key = _memory(old)
        base = self._bases.get(key)
        if base is None:
            length = self.size(old.untyped_storage().nbytes()) // old.element_size()
            needed = compute_required_storage_length(shape, stride, offset)
            if isinstance(length, int) and isinstance(needed, int):
                length = max(length, needed)
            base = self._bases[key] = torch.empty(length, dtype=old.dtype, device=old.device)
        return base
