"""What a pattern took out of a graph, beside what it put in: dtype, shape, strides, and values if asked.

Both are evaluated on the same inputs, from the matched region's own metadata. Any way of replacing is
seen: `register_replacement`, `replace_by_example`, or a handler that edits the graph by hand. Of torch's
own patterns the strides are left out, which Inductor chooses anew, and what is NaN in either: of a row
that a random mask leaves empty, its attention makes numbers.
"""

from __future__ import annotations

import contextlib
import operator
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

from compdbg.hooks import replacement_values
from compdbg.hooks.node_values import Unknown, evaluate
from compdbg.record.options import current as options

SIGNATURES_CHECKED = 2
"""Of one pattern, regions of one kind whose values are compared; a model has the same one in each layer."""


class Use(NamedTuple):
    """One reader of the region: its n-th input is `node` of the region."""

    node: Any
    user: Any
    position: int


class Fault(NamedTuple):
    """How a replacement is not like its region, at the region's output `output`."""

    fault: str
    output: str
    wanted: str
    found: str
    node: Any
    max_abs: float | None = None
    max_rel: float | None = None
    scale: float | None = None


class Region:
    """A matched region before it is replaced: who reads it, and what they read."""

    def __init__(self, match: Any, graph: Any, custom: bool) -> None:
        self.graph = graph
        self.custom = custom
        self.before = set(graph.nodes)
        self.nodes = _with_getitems(match.nodes)
        self.uses = list(_uses(self.nodes))
        self.traces = {use.node: use.node.meta.get("stack_trace") for use in self.uses}
        self.fake_mode = _fake_mode(self.nodes)
        self.values: dict[Any, Any] = {}
        self.trials: list[replacement_values.Trial] = []
        if self.fake_mode is not None:
            self.values = self._fakes(self.nodes, {use.node for use in self.uses})

    def try_values(self) -> None:
        """Run the region on random inputs of its metadata, to be compared once it is replaced."""
        wanted = {use.node for use in self.uses}
        self.trials = replacement_values.trials(self.nodes, wanted, _metadata)

    def faults(self) -> Iterator[Fault]:
        """What is wrong of what stands in the region's place now."""
        new_nodes = {node for node in self.graph.nodes if node not in self.before}
        pairs = {(use.node, new): None for use in self.uses if (new := _now(use)) is not None}
        if self.fake_mode is None or not pairs:
            return
        values = self._fakes(new_nodes, {new for _, new in pairs})
        wrong = False
        for old, new in pairs:
            for fault in _differs(self.values.get(old), values.get(new)):
                if fault[0] == "strides" and not self.custom:
                    continue
                wrong = True
                yield Fault(fault[0], old.name, fault[1], fault[2], old)
        if not wrong and self.trials:
            for trial in self.trials:
                for found in trial.differences(new_nodes, list(pairs), _metadata, nan=self.custom):
                    yield Fault("values", found.output.name, "", "", found.output, *found.measures)
                    return

    def _fakes(self, nodes: Any, wanted: set[Any]) -> dict[Any, Any]:
        """Fake values of `wanted`; of the graph's other nodes their metadata. Unknown ones are left out."""
        found: dict[Any, Any] = {}
        env: dict[Any, Any] = {}
        with _fakes_apart(self.fake_mode):
            for node in wanted:
                with contextlib.suppress(Exception):
                    found[node] = evaluate(node, set(nodes), env, _metadata)
        return found


def wants_values(pattern: str, nodes: list[Any], seen: dict[Any, int]) -> bool:
    """Whether values are compared for this region: only if asked, and not for each layer."""
    if not options().check_replacements:
        return False
    key = (pattern, tuple(str(getattr(_metadata_or_none(node), "shape", "")) for node in nodes))
    seen[key] = seen.get(key, 0) + 1
    return seen[key] <= SIGNATURES_CHECKED


def _metadata(node: Any) -> Any:
    value = _metadata_or_none(node)
    if value is None:
        raise Unknown(node.name)
    return value


def _metadata_or_none(node: Any) -> Any:
    return node.meta.get("val", node.meta.get("example_value"))


def _with_getitems(nodes: list[Any]) -> list[Any]:
    """The matched nodes and the items read of them, which a replacement takes apart."""
    found = dict.fromkeys(nodes)
    for node in nodes:
        found.update(dict.fromkeys(user for user in node.users if user.target is operator.getitem))
    return list(found)


def _uses(nodes: list[Any]) -> Iterator[Use]:
    members = set(nodes)
    for node in nodes:
        for user in node.users:
            if user not in members:
                yield from (Use(node, user, i) for i, read in enumerate(_inputs(user)) if read is node)


def _inputs(node: Any) -> list[Any]:
    """Every input of a node, in order, one that comes twice twice."""
    found: list[Any] = []
    sys.modules["torch.fx.node"].map_arg((node.args, node.kwargs), found.append)
    return found


def _now(use: Use) -> Any:
    """What a reader reads now in the region's place; None where it is gone, edited, or reads the same."""
    if getattr(use.user, "_erased", False):
        return None
    inputs = _inputs(use.user)
    new = inputs[use.position] if use.position < len(inputs) else None
    return None if new is use.node else new


def _fake_mode(nodes: list[Any]) -> Any:
    for node in nodes:
        for read in (node, *node.all_input_nodes):
            mode = getattr(_metadata_or_none(read), "fake_mode", None)
            if mode is not None:
                return mode
    return None


@contextlib.contextmanager
def _fakes_apart(mode: Any) -> Iterator[None]:
    """Fake tensors made here leave no guard and no symbol behind."""
    torch = sys.modules["torch"]
    env = mode.shape_env
    with contextlib.ExitStack() as stack:
        if env is not None:
            stack.enter_context(env.suppress_guards())
            stack.enter_context(env.ignore_fresh_unbacked_symbols())
        stack.enter_context(sys.modules["torch._dispatch.python"].enable_python_dispatcher())
        stack.enter_context(mode)
        stack.enter_context(torch.no_grad())
        yield


def _differs(old: Any, new: Any) -> Iterator[tuple[str, str, str]]:
    """dtype, shape, strides and device of two fake tensors, where they disagree."""
    tensor = sys.modules["torch"].Tensor
    if isinstance(old, (tuple, list)) and isinstance(new, (tuple, list)) and len(old) == len(new):
        for one, other in zip(old, new, strict=True):
            yield from _differs(one, other)
    if not isinstance(old, tensor) or not isinstance(new, tensor):
        return
    if old.dtype != new.dtype:
        yield "dtype", _short(old.dtype), _short(new.dtype)
    if old.device.type != new.device.type:
        yield "device", old.device.type, new.device.type
    if old.dim() != new.dim() or any(map(_unequal, old.shape, new.shape)):
        yield "shape", str(list(old.shape)), str(list(new.shape))
    elif old.layout == new.layout == sys.modules["torch"].strided and _strides_differ(old, new):
        yield "strides", str(tuple(old.stride())), str(tuple(new.stride()))


def _strides_differ(old: Any, new: Any) -> bool:
    sizes = [_known(size) for size in old.shape]
    if 0 in sizes:
        return False
    steps = zip(sizes, old.stride(), new.stride(), strict=True)
    return any(size != 1 and _unequal(one, other) for size, one, other in steps)


def _unequal(one: Any, other: Any) -> bool:
    """Whether two sizes are known to differ; nothing is asked of their symbols that leaves a guard."""
    expressions = [getattr(getattr(size, "node", None), "expr", size) for size in (one, other)]
    if expressions[0] == expressions[1]:
        return False
    known = _known(one), _known(other)
    return None not in known and known[0] != known[1]


def _known(size: Any) -> int | None:
    """A size, or the one that its symbol was traced with."""
    return size if isinstance(size, int) else getattr(size.node, "hint", None)


def _short(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")
