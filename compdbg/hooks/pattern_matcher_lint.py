"""The self-match test: a registered pattern against the graph that it was traced from.

Run once at registration, for custom patterns, in both forms in which the pattern may be met:
as traced, and with `view` turned into `reshape`, as Inductor does before its post-grad passes.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
import threading
import weakref
from collections.abc import Iterator
from types import CodeType
from typing import Any

from msgspec import Struct

from compdbg.hooks.pattern_matcher_bodies import calls_of
from compdbg.hooks.pattern_matcher_kinds import is_trivial
from compdbg.hooks.pattern_matcher_trace import find_stop
from compdbg.hooks.pattern_matcher_words import base_name, op_name

_here = threading.local()
_UNREAD_BY_NATURE = {
    "empty",
    "empty_like",
    "empty_strided",
    "zeros",
    "ones",
    "full",
    "arange",
    "scalar_tensor",
}


class Problem(Struct, frozen=True):
    """`problem`: `no-self-match`, `unreachable-output`, `lost-nodes`."""

    problem: str
    detail: str


class Registered(Struct, frozen=True):
    """What is kept of a registration: problems by form, and what the example inputs were."""

    as_traced: tuple[Problem, ...]
    reshaped: tuple[Problem, ...]
    dtypes: tuple[str, ...]
    calls: dict[Any, tuple[Any, ...]]
    """Custom ops of the pattern with stand-ins for their arguments."""

    def problems(self, stage: str) -> tuple[Problem, ...]:
        return self.reshaped if stage == "post-grad" else self.as_traced


_registered: weakref.WeakKeyDictionary[Any, Registered] = weakref.WeakKeyDictionary()


def registration_of(pattern: Any) -> Registered | None:
    """What `examine` found of a pattern; None for one that was not traced from a search function."""
    return _registered.get(pattern)


def examine(matcher: Any, pattern: Any, search_gm: Any, dropped: list[Any]) -> None:
    """Test a pattern against its own traced graph; `dropped` are ops that tracing left out as dead."""
    lost = _lost(pattern, search_gm.graph, dropped)
    plain = _self_match(matcher, pattern, search_gm.graph)
    reshaped = plain
    if any(node.target in _views() for node in search_gm.graph.nodes):
        reshaped = _self_match(matcher, pattern, _with_reshape(search_gm))
    inputs = [
        n.meta.get("val", n.meta.get("tensor_meta")) for n in search_gm.graph.nodes if n.op == "placeholder"
    ]
    tensors = [v for v in inputs if hasattr(v, "dtype") and hasattr(v, "shape")]
    _registered[pattern] = Registered(
        as_traced=(*plain, *lost),
        reshaped=(*reshaped, *lost),
        dtypes=tuple(str(v.dtype) for v in tensors),
        calls=calls_of(search_gm.graph),
    )


def _views() -> tuple[Any, ...]:
    return (sys.modules["torch"].ops.aten.view.default,)


def _with_reshape(search_gm: Any) -> Any:
    fx = sys.modules["torch"].fx
    graph = fx.Graph()
    graph.output(graph.graph_copy(search_gm.graph, {}))
    module = fx.GraphModule(search_gm, graph)
    post_grad = sys.modules.get("torch._inductor.fx_passes.post_grad")
    if post_grad is not None and hasattr(post_grad, "view_to_reshape"):
        post_grad.view_to_reshape(module)
    return module.graph


def _outputs(graph: Any) -> list[Any]:
    found: list[Any] = []
    output = next(node for node in graph.nodes if node.op == "output")
    sys.modules["torch"].fx.map_arg(output.args, found.append)
    return found


def _self_match(matcher: Any, pattern: Any, graph: Any) -> tuple[Problem, ...]:
    outputs = _outputs(graph)
    if not outputs:
        return ()
    stop = find_stop(matcher, pattern, outputs[0])
    if stop is None:
        return ()
    if stop.found == "no anchor found":
        text = f"output {stop.wanted} cannot be reached from the anchor: {stop.detail}"
        return (Problem("unreachable-output", text),)
    return (Problem("no-self-match", f"it wants {stop.wanted} where its own graph has {stop.found}"),)


def _lost(pattern: Any, graph: Any, dropped: list[Any]) -> tuple[Problem, ...]:
    kept = _reaching(_outputs(graph))
    calls = [node for node in graph.nodes if node.op == "call_function"]
    outside = [op_name(node.target) for node in calls if node not in kept and _matters(node.target)]
    names = list(dict.fromkeys([*outside, *map(op_name, dropped)]))
    if not names:
        return ()
    text = f"no output depends on {', '.join(names)}, so tracing left it out of the pattern"
    return (Problem("lost-nodes", text),)


def _matters(target: Any) -> bool:
    name = base_name(target)
    checks = name.startswith(("_assert", "sym_constrain", "_check"))
    return not (checks or name in _UNREAD_BY_NATURE or is_trivial(target))


def _reaching(outputs: list[Any]) -> set[Any]:
    found: set[Any] = set()
    waiting = list(outputs)
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting.extend(node.all_input_nodes)
    return found


@contextlib.contextmanager
def watching_dead_code(search_fn: Any) -> Iterator[list[Any]]:
    """Ops that dead-code elimination takes out on this thread inside the block, and that matter."""
    dropped: list[Any] = []
    _here.dropped, _here.called = dropped, names_called(search_fn)
    try:
        yield dropped
    finally:
        _here.dropped, _here.called = None, frozenset()


def names_called(function: Any) -> frozenset[str]:
    """The names that a function's code mentions, those of functions inside it too."""
    code = getattr(inspect.unwrap(function), "__code__", None) if callable(function) else None
    waiting, found = [code] if code is not None else [], set()
    while waiting:
        one = waiting.pop()
        found.update(one.co_names)
        waiting.extend(constant for constant in one.co_consts if isinstance(constant, CodeType))
    return frozenset(found)


def watched_elimination(original: Any) -> Any:
    """`Graph.eliminate_dead_code`, noting what it takes out while a pattern is being traced."""

    def eliminate_dead_code(self: Any, *args: Any, **kwargs: Any) -> Any:
        dropped: list[Any] | None = getattr(_here, "dropped", None)
        if dropped is None:
            return original(self, *args, **kwargs)
        dead = _dead_chains(self)
        result = original(self, *args, **kwargs)
        dropped.extend(target for node, target in dead if getattr(node, "_erased", False))
        return result

    return eliminate_dead_code


def _dead_chains(graph: Any) -> list[tuple[Any, Any]]:
    """Dead computations that somebody wrote: a custom op, a chain that shares no op with what lives, or
    an op that the search function calls by its name and that nothing alive is a call of.

    A decomposition leaves dead ops as well, but those hang on ops that live.
    """
    called: frozenset[str] = getattr(_here, "called", frozenset())
    alive = _reaching(_outputs(graph) + [n for n in graph.nodes if n.op == "call_function" and n.is_impure()])
    unread = called - {base_name(node.target) for node in alive if node.op == "call_function"}
    found = []
    for node in graph.nodes:
        if node.op != "call_function" or node in alive or not _matters(node.target):
            continue
        custom = getattr(node.target, "namespace", "aten") not in ("aten", "prims", "prim", "inductor")
        written = custom or base_name(node.target) in unread
        if written or not any(n.op == "call_function" and n in alive for n in _reaching([node])):
            found.append((node, node.target))
    return found


__all__ = ["Problem", "Registered", "examine", "watched_elimination", "watching_dead_code"]
