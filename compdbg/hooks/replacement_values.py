"""A region and its replacement run on the same random inputs: `--check-replacements`.

Memory that either takes uninitialised is poisoned, so that reading it shows. Regions that draw random
numbers or talk to other ranks are not run.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from compdbg.hooks.node_values import evaluate
from compdbg.hooks.op_kinds import rounds, talks

SCALES = (1.0, 1e-3, 16.0)
"""Sizes of the random inputs, one trial each: a small one shows an epsilon, a large one an overflow."""
MOST_ELEMENTS = 1 << 22
TOLERANCE = {"float64": 1e-9, "float32": 1e-4, "float16": 1e-2, "bfloat16": 5e-2, "complex64": 1e-4}
"""Of an output's largest value; fp8 and what is not named here: an eighth."""
_EMPTY = ("empty.", "empty_like", "new_empty", "empty_strided", "empty_permuted")


class Difference(NamedTuple):
    output: Any
    measures: tuple[float | None, float | None, float]
    """Largest absolute and relative difference (None: NaN in place of a number), the inputs' scale."""


class Trial:
    """The region's results at one scale, with the inputs that gave them."""

    def __init__(self, scale: float, inputs: Inputs, results: dict[Any, Any], rounds: bool) -> None:
        self.scale = scale
        self.inputs = inputs
        self.results = results
        self.rounds = rounds

    def differences(
        self,
        nodes: set[Any],
        pairs: list[tuple[Any, Any]],
        metadata: Callable[[Any], Any],
        *,
        nan: bool,
    ) -> Iterator[Difference]:
        """Outputs of which the replacement gives another value; none where it can't be run here.

        Without `nan`, what is NaN in one of the two is no difference.
        """
        if not can_run(nodes):
            return
        steps = self.rounds or any(map(rounds, nodes))
        results = run(nodes, {new for _, new in pairs}, self.inputs.again())
        for old, new in pairs:
            if results is None or old not in self.results or new not in results:
                continue
            with _no_modes():
                measures = difference(self.results[old], results[new], steps, nan=nan)
            if measures is not None:
                yield Difference(old, (*measures, self.scale))


class Inputs:
    """Random values for the nodes that a region reads, made when first asked for; copies thereafter."""

    def __init__(self, scale: float, metadata: Callable[[Any], Any], seed: int) -> None:
        torch = sys.modules["torch"]
        self.scale = scale
        self.metadata = metadata
        self.generator = torch.Generator().manual_seed(seed)
        self.made: dict[Any, Any] = {}
        self.copies: dict[Any, Any] = {}

    def again(self) -> Inputs:
        """The same values, untouched by what ran on them."""
        self.copies = {}
        return self

    def __call__(self, node: Any) -> Any:
        torch = sys.modules["torch"]
        if node not in self.copies:
            if node not in self.made:
                self.made[node] = self._make(self.metadata(node))
            value = self.made[node]
            self.copies[node] = value.clone() if isinstance(value, torch.Tensor) else value
        return self.copies[node]

    def _make(self, value: Any) -> Any:
        torch = sys.modules["torch"]
        if not isinstance(value, torch.Tensor):
            return size(value)
        shape, strides = [size(s) for s in value.shape], [size(s) for s in value.stride()]
        if value.dtype == torch.bool or not (value.is_floating_point() or value.is_complex()):
            made = torch.randint(0, 2, shape, generator=self.generator)
        else:
            made = torch.randn(shape, generator=self.generator) * self.scale
        made = made.to(value.device, value.dtype)
        if 0 in strides or made.numel() > MOST_ELEMENTS:
            return made
        return torch.empty_strided(shape, strides, dtype=value.dtype, device=value.device).copy_(made)


def size(value: Any) -> int:
    """A size, or the one that its symbol was traced with.

    Raises:
        ValueError: only the data tells it.
    """
    if isinstance(value, (int, float)):
        return value  # type: ignore[return-value]
    hint = getattr(value.node, "hint", None)
    if hint is None:
        raise ValueError("a size that only the data tells")
    return int(hint)


def trials(nodes: list[Any], wanted: set[Any], metadata: Callable[[Any], Any]) -> list[Trial]:
    """The region's results on random inputs of each scale; nothing if it can't be run here."""
    members = set(nodes)
    if not can_run(members) or _elements(nodes, metadata) > MOST_ELEMENTS:
        return []
    found = []
    for seed, scale in enumerate(SCALES):
        inputs = Inputs(scale, metadata, seed)
        results = run(members, wanted, inputs)
        if results is None:
            return []
        found.append(Trial(scale, inputs, results, any(map(rounds, members))))
    return found


def can_run(nodes: set[Any]) -> bool:
    """Whether running these nodes is free of consequences, and gives the same twice."""
    return not any(map(_draws, nodes)) and not any(map(talks, nodes))


def _draws(node: Any) -> bool:
    """Whether an op draws random numbers; one that could only for its dropout does not without any."""
    if sys.modules["torch"].Tag.nondeterministic_seeded not in getattr(node.target, "tags", ()):
        return False
    for place, argument in enumerate(node.target._schema.arguments):
        if argument.name == "dropout_p":
            given = node.kwargs.get(argument.name, argument.default_value)
            return bool((node.args[place] if place < len(node.args) else given) != 0)
    return True


def run(members: set[Any], wanted: set[Any], inputs: Inputs) -> dict[Any, Any] | None:
    """Values of `wanted` on these inputs; None where something raises."""
    env: dict[Any, Any] = {}
    try:
        with _for_real():
            return {node: evaluate(node, members, env, inputs) for node in wanted}
    except Exception:
        return None


@contextlib.contextmanager
def _for_real() -> Iterator[None]:
    """Real tensors in the midst of a compile: no mode of the compiler's, and random state as it was."""
    torch = sys.modules["torch"]
    modes = sys.modules["torch.utils._python_dispatch"]
    with (
        sys.modules["torch._guards"].tracing(None),
        _no_modes(),
        torch._C._DisablePythonDispatcher(),
        torch.random.fork_rng(devices=[]),
        torch.no_grad(),
        _poison(modes),
    ):
        yield


def _no_modes() -> Any:
    return sys.modules["torch.utils._python_dispatch"]._disable_current_modes()


def _poison(modes: Any) -> Any:
    """A mode in which uninitialised memory is full of what no one can miss."""
    torch = sys.modules["torch"]

    class Poison(modes.TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            made = func(*args, **(kwargs or {}))
            if func.namespace == "aten" and func.name().removeprefix("aten::").startswith(_EMPTY):
                poison = float("nan") if made.is_floating_point() or made.is_complex() else 113
                made.fill_(poison if made.dtype != torch.bool else True)
            return made

    return Poison()


def difference(
    old: Any,
    new: Any,
    rounds: bool,
    tolerance: Mapping[str, float] = TOLERANCE,
    *,
    nan: bool = True,
    steps: float = 0.01,
) -> tuple[float | None, float | None] | None:
    """The largest absolute and relative difference, if it is more than the dtype explains.

    `steps` is the part of the elements that may be a step apart where something `rounds`.
    """
    torch = sys.modules["torch"]
    if not isinstance(old, torch.Tensor) or not isinstance(new, torch.Tensor) or not old.numel():
        return None
    exact = not (old.is_floating_point() or old.is_complex())
    one, other = (_wide(t) for t in (old, new))
    apart = torch.nan_to_num((one - other).abs(), nan=float("inf"))
    apart[(one == other) | (one.isnan() & other.isnan())] = 0
    if not nan:
        apart[one.isnan() | other.isnan()] = 0
    finite = one[one.isfinite()].abs()
    scale = float(finite.max()) if finite.numel() else 0.0
    allowed = (
        0.0
        if exact
        else scale * tolerance.get(str(old.dtype).removeprefix("torch."), 0.125 if tolerance else 1e-12)
    )
    off = apart > allowed
    count = int(off.sum())
    steps_only = rounds and bool((apart <= max(1.0, scale / 8))[off].all())
    if count == 0 or (steps_only and count <= max(1, int(old.numel() * steps))):
        return None
    largest = float(apart.max())
    if largest == float("inf"):
        return None, None
    return largest, largest / scale if scale else None


def _wide(tensor: Any) -> Any:
    torch = sys.modules["torch"]
    return tensor.detach().to("cpu", torch.complex128 if tensor.is_complex() else torch.float64)


def _elements(nodes: list[Any], metadata: Callable[[Any], Any]) -> int:
    """How large the largest tensor is that the region holds or reads; too large where unknown."""
    most = 0
    for read in {n for node in nodes for n in (node, *node.all_input_nodes)}:
        try:
            shape = [size(s) for s in getattr(metadata(read), "shape", ())]
        except Exception:
            continue
        elements = 1
        for length in shape:
            elements *= length
        most = max(most, elements)
    return most
