"""What a graph gives in eager, twice; and whether compiled results are within what that leaves open."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from compdbg.hooks.op_calls import uncounted
from compdbg.hooks.op_kinds import decides, dtypes_of, nodes_of, rounds, talks
from compdbg.hooks.replacement_values import difference
from compdbg.hooks.write_guard import TORCHS, Writes, write_guard

COPIED_BYTES = 256 << 20
TOLERANCE = {"float64": 1e-7, "float32": 1e-3, "float16": 2e-2, "bfloat16": 1e-1, "complex64": 1e-3}
"""Of a result's largest value: a compiler keeps more precision between ops than eager does."""


class NotComparable(Exception):
    """Why a call is not compared."""


def first_difference(
    expected: list[Any], result: Any, rounds: bool, least: float = 0.0
) -> dict[str, Any] | None:
    """The first of the results that differs, and by how much; None if all are as expected.

    `least` is the tolerance of what the graph works in, where that is less precise than its results.
    """
    tolerance = {name: max(allowed, least) for name, allowed in TOLERANCE.items()}
    for number, (one, other) in enumerate(zip(expected, as_tensors(result), strict=False)):
        if one is None or other is None:
            continue
        wrong = {"output": number, "dtype": str(one.dtype).removeprefix("torch.")}
        if one.dtype != other.dtype or (one.shape != other.shape and not rounds):
            return {**wrong, "form": f"{form_of(other)} in place of {form_of(one)}"}
        if one.shape != other.shape:
            continue
        steps = 0.01 if wrong["dtype"] == "bool" else _steps(least)
        found = difference(one, other, rounds, tolerance, steps=steps)
        if found is not None:
            return {**wrong, "max_abs": found[0], "max_rel": found[1]}
    return None


def _steps(least: float) -> float:
    """How many elements may be rounded the other way: many, where a step is hardly more than a last bit."""
    return 0.25 if least >= TOLERANCE["bfloat16"] else 0.05 if least >= TOLERANCE["float16"] else 0.01


def tolerance_of(dtypes: Iterable[Any], values: Iterable[Any]) -> float:
    """What is allowed for the least precise of the floats that a graph and its inputs have."""
    torch = sys.modules["torch"]
    known = {*dtypes, *(value.dtype for value in values if isinstance(value, torch.Tensor))}
    known |= {torch.get_autocast_dtype(kind) for kind in ("cpu", "cuda") if torch.is_autocast_enabled(kind)}
    return max((TOLERANCE.get(str(dtype).removeprefix("torch."), 0.0) for dtype in known), default=0.0)


def form_of(tensor: Any) -> str:
    """`float32[3, 8]`."""
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


@contextmanager
def apart(*, gradients: bool) -> Iterator[None]:
    """Eager beside the program: random numbers, counts of calls and cached casts stay the program's.

    Raises:
        NotComparable: eager can't run beside it here.
    """
    torch = sys.modules["torch"]
    if torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing():
        raise NotComparable("a CUDA graph is captured")
    if torch._C._len_torch_dispatch_stack():
        raise NotComparable("a dispatch mode of the program's would see eager's operators")
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []
    try:
        with torch.random.fork_rng(devices=devices), torch.set_grad_enabled(gradients), uncounted():
            yield
    finally:
        torch.clear_autocast_cache()  # weights cast under no_grad would have no gradient


def check_repeatable(first: list[Any], second: list[Any]) -> None:
    """Raise NotComparable where eager gives another result each time."""
    for one, other in zip(first, second, strict=True):
        if difference(one, other, rounds=False, tolerance={}) is not None:
            raise NotComparable("eager itself gives another result each time")


class Eager:
    """What eager gives for some graphs; what their nodes call says how far other results may be from it."""

    def __init__(self, nodes: Sequence[Any]) -> None:
        self.custom_ops = sorted({name for node in nodes if (name := custom_op(node.target))})
        self._talks = any(map(talks, nodes))
        self._gradients = any("grad" in str(node.target) for node in nodes)
        self._rounds = any(rounds(node) or decides(node) for node in nodes)
        self._dtypes = {dtype for node in nodes for dtype in dtypes_of(node)}
        self._least = 0.0

    def twice(self, values: Iterable[Any], run: Callable[[], list[Any]]) -> list[Any]:
        """The results of a run by eager on these values, once a second run has given the same.

        Raises:
            NotComparable: it talks to other ranks, or gives other results each time.
        """
        if self._talks:
            raise NotComparable("the graph talks to other ranks")
        self._least = tolerance_of(self._dtypes, values)
        with self.apart():
            first, second = run(), run()
        check_repeatable(first, second)
        return first

    def first_difference(self, expected: list[Any], result: Any) -> dict[str, Any] | None:
        return first_difference(expected, result, self._rounds, self._least)

    def apart(self) -> AbstractContextManager[None]:
        """Gradients only where the graph itself works some out: what a backward would need takes memory."""
        return apart(gradients=self._gradients and bool(sys.modules["torch"].is_grad_enabled()))


class Reference(Eager):
    """A graph as Dynamo made it, to be run by eager."""

    def __init__(self, gm: Any) -> None:
        super().__init__(list(nodes_of(gm)))
        self.gm = gm
        self.writes = False
        self.own = [t for t in vars(gm).values() if isinstance(t, sys.modules["torch"].Tensor)]
        self.own += [*gm.parameters(), *gm.buffers()]

    def results(self, args: tuple[Any, ...]) -> list[Any]:
        """What eager gives for these inputs, which stay as they are.

        Raises:
            NotComparable: it can't be run beside the program, or gives other results each time.
        """
        return self.twice((*args, *self.own), lambda: self._run(args))

    def difference(self, expected: list[Any], result: Any) -> dict[str, Any] | None:
        """The first result that differs; None if all are as expected."""
        return self.first_difference(expected, result)

    def _run(self, args: tuple[Any, ...]) -> list[Any]:
        """One run, on the inputs themselves until the graph is about to write to one."""
        if not self.writes:
            try:
                with write_guard((*args, *self.own)):
                    results = as_tensors(self.gm(*args))
                inputs = {id(a) for a in args}
                return [r.clone() if r is not None and id(r) in inputs else r for r in results]
            except Writes:
                self.writes = True
        if self.own:
            raise NotComparable("the graph writes, and holds tensors of its own")
        return as_tensors(self.gm(*_copies(args)))


def custom_op(target: Any) -> str:
    """`ns::op` of an operator that is none of torch's; "" of all else."""
    schema = getattr(getattr(target, "default", target), "_schema", None)
    name = getattr(target, "_qualified_op_name", "") if schema is None else schema.name
    return "" if "::" not in name or name.partition("::")[0] in TORCHS else str(name)


def backend_of(output_graph: Any) -> str:
    compiler = getattr(output_graph, "compiler_fn", None)
    for name in ("compiler_name", "_compiler_name", "__name__"):
        found = getattr(compiler, name, None)
        if isinstance(found, str):
            return found
    return type(compiler).__name__


def _copies(args: tuple[Any, ...]) -> list[Any]:
    """The inputs, each in memory of its own."""
    torch = sys.modules["torch"]
    tensors = [a for a in args if isinstance(a, torch.Tensor)]
    if sum(t.numel() * t.element_size() for t in tensors) > COPIED_BYTES:
        raise NotComparable("the graph writes to its inputs, and they are too large to copy")
    memory = [t.untyped_storage().data_ptr() for t in tensors if t.numel()]
    if len(set(memory)) < len(memory):
        raise NotComparable("the graph writes to its inputs, and two of them share memory")
    return [a.detach().clone() if isinstance(a, torch.Tensor) else a for a in args]


def as_tensors(results: Any) -> list[Any]:
    """The results in order, detached; None for what is no tensor."""
    torch = sys.modules["torch"]
    items = results if isinstance(results, (tuple, list)) else [results]
    return [r.detach() if isinstance(r, torch.Tensor) else None for r in items]
