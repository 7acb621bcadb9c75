"""Graphs on their way from Dynamo to kernels: each as text, and each with a name.

Names: `0/0` for the graph of a compile (inference or forward), `0/0 joint`, `0/0 backward`. A
backend that compiles several graphs in one compile (pieces) gets `0/0 #2` and so on, unless it
has named them itself with `compiling_graph`. A subgraph of `cond` or `scan` is `0/0.true_graph_0`.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from compdbg import probe
from compdbg.events import Graph
from compdbg.hooks.base import Hook, Part, Patches, Target, contained
from compdbg.hooks.current import compile_id, compiling_graph, graph_base, graph_name
from compdbg.hooks.passrun import same_graph
from compdbg.hooks.snapshots import snapshot

NAME = "graphs"
_FX = "torch._inductor.compile_fx:"
_AOT = "torch._functorch._aot_autograd.graph_compile:"

USER_COMPILER = Target("torch._dynamo.output_graph:OutputGraph.call_user_compiler", ("gm",))
LOG_INFERENCE = Target(_AOT + "_log_inference_graph", ("fw_module",))
LOG_JOINT = Target(_AOT + "_log_joint_graph", ("fx_g",))
LOG_FW_BW = Target(_AOT + "_log_fw_bw_graphs", ("fw_module", "bw_module"))
MAIN = Target(_FX + "_compile_fx_main", ("model_",))
FORWARD = Target(_FX + "compile_fx_forward", ("gm", "is_inference"))
BACKWARD = Target(_FX + "compile_fx_backward", ("gm",))
INNER = Target(_FX + "_compile_fx_inner", ("gm", "graph_kwargs"))
JOINT_PASSES = Target(_FX + "_recursive_joint_graph_passes", ("gm",))
POST_GRAD = Target(_FX + "_recursive_post_grad_passes", ("gm",))

_here = threading.local()
_compiled: Counter[str] = Counter()
_anonymous = itertools.count(1)


def record_graph(name: str, stage: str, graph: Any, *, cached: bool = False) -> None:
    """Emit one graph as it is now."""
    now = snapshot(graph)
    nodes = list(graph.nodes)
    event = Graph(
        graph=name,
        stage=stage,
        text=now.text,
        compile_id=compile_id(),
        ops=now.ops,
        inputs=sum(node.op == "placeholder" for node in nodes),
        outputs=_outputs(nodes),
        cached=cached,
    )
    probe.emit(event)


def _outputs(nodes: list[Any]) -> int:
    returned = nodes[-1].args[0] if nodes and nodes[-1].op == "output" else ()
    return len(returned) if isinstance(returned, (list, tuple)) else 1


@contextmanager
def _named(name: str) -> Iterator[None]:
    """`compiling_graph`, with room to name the subgraphs of a graph module inside it."""
    before = getattr(_here, "outer", None)
    _here.outer = None
    try:
        with compiling_graph(name):
            yield
    finally:
        _here.outer = before


def _main_name() -> str:
    """A name for what `compile_fx` is given now: the one in force, or the compile's, numbered."""
    named = graph_base()
    compiling = compile_id()
    if named not in ("?", compiling):
        return named
    if compiling is None:
        return f"graph {next(_anonymous)}"
    _compiled[compiling] += 1
    count = _compiled[compiling]
    return compiling if count == 1 else f"{compiling} #{count}"


def _subgraph_name(gm: Any) -> str | None:
    """The graph's name with the attribute of the outer module that `gm` is; None if it is no subgraph."""
    outer = getattr(_here, "outer", None)
    if outer is None or outer is gm:
        return None
    attribute = next((name for name, child in outer.named_modules() if child is gm and name), None)
    return f"{graph_name()}.{attribute}" if attribute else None


def _around_user_compiler(original: Callable[..., Any]) -> Callable[..., Any]:
    def call_user_compiler(self: Any, gm: Any, *args: Any, **kwargs: Any) -> Any:
        if probe.active():
            with contained(NAME):
                _compiled.pop(compile_id() or "", None)
                record_graph(graph_name(), "dynamo", gm.graph)
        return original(self, gm, *args, **kwargs)

    return call_user_compiler


def _recording(stage: str, suffix: str = "") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Record the first argument, a graph module, before the function sees it."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def log_graph(gm: Any, *args: Any, **kwargs: Any) -> Any:
            if probe.active():
                with contained(NAME):
                    record_graph(graph_base() + suffix, stage, gm.graph)
            return original(gm, *args, **kwargs)

        return log_graph

    return make


def _around_log_fw_bw(original: Callable[..., Any]) -> Callable[..., Any]:
    def log_fw_bw(fw_module: Any, bw_module: Any, *args: Any, **kwargs: Any) -> Any:
        if probe.active():
            with contained(NAME):
                record_graph(graph_base(), "aot-forward", fw_module.graph)
                record_graph(graph_base() + " backward", "aot-backward", bw_module.graph)
        return original(fw_module, bw_module, *args, **kwargs)

    return log_fw_bw


def _under_name(name: Callable[[dict[str, Any]], str]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Run the function with the graph's name in force."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def compile_named(*args: Any, **kwargs: Any) -> Any:
            if not probe.active():
                return original(*args, **kwargs)
            with _named(name(kwargs)):
                return original(*args, **kwargs)

        return compile_named

    return make


def _inner_name(kwargs: dict[str, Any]) -> str:
    return graph_base() + (" backward" if kwargs.get("is_backward") else "")


def _around_forward(original: Callable[..., Any]) -> Callable[..., Any]:
    def compile_fx_forward(*args: Any, **kwargs: Any) -> Any:
        if not probe.active():
            return original(*args, **kwargs)
        before = getattr(_here, "forward", False)
        _here.forward = True
        try:
            with _named(graph_base()):
                return original(*args, **kwargs)
        finally:
            _here.forward = before

    return compile_fx_forward


def _around_joint_passes(original: Callable[..., Any]) -> Callable[..., Any]:
    def joint_passes(gm: Any, *args: Any, **kwargs: Any) -> Any:
        if not probe.active():
            return original(gm, *args, **kwargs)
        inference = getattr(_here, "forward", False)
        with _passes_of(gm, graph_name() if inference else graph_base() + " joint"):
            return original(gm, *args, **kwargs)

    return joint_passes


def _around_post_grad(original: Callable[..., Any]) -> Callable[..., Any]:
    def post_grad_passes(gm: Any, *args: Any, **kwargs: Any) -> Any:
        if not probe.active():
            return original(gm, *args, **kwargs)
        with _passes_of(gm, graph_name()):
            result = original(gm, *args, **kwargs)
            with contained(NAME):
                record_graph(graph_name(), "post-grad", gm.graph)
        return result

    return post_grad_passes


@contextmanager
def _passes_of(gm: Any, name: str) -> Iterator[None]:
    """Passes run over `gm`, the graph `name`; called again inside, over one of its subgraphs."""
    before = getattr(_here, "outer", None)
    inside = _subgraph_name(gm)
    if before is None:
        _here.outer = gm
    try:
        with compiling_graph(inside or name), same_graph():
            with contained(NAME):
                snapshot(gm.graph)
            yield
    finally:
        _here.outer = before


def _install_dynamo(patches: Patches) -> None:
    patches.wrap(USER_COMPILER, _around_user_compiler)


def _install_aot(patches: Patches) -> None:
    patches.wrap(LOG_INFERENCE, _recording("aot-inference"))
    patches.wrap(LOG_JOINT, _recording("aot-joint", " joint"))
    patches.wrap(LOG_FW_BW, _around_log_fw_bw)


def _install_inductor(patches: Patches) -> None:
    patches.wrap(MAIN, _under_name(lambda kwargs: _main_name()))
    patches.wrap(FORWARD, _around_forward)
    patches.wrap(BACKWARD, _under_name(lambda kwargs: graph_base() + " backward"))
    patches.wrap(INNER, _under_name(_inner_name))
    patches.wrap(JOINT_PASSES, _around_joint_passes)
    patches.wrap(POST_GRAD, _around_post_grad)


HOOK = Hook(
    NAME,
    (
        Part("torch._dynamo.output_graph", _install_dynamo),
        Part("torch._functorch._aot_autograd.graph_compile", _install_aot),
        Part("torch._inductor.compile_fx", _install_inductor),
    ),
    (
        USER_COMPILER, LOG_INFERENCE, LOG_JOINT, LOG_FW_BW, MAIN, FORWARD, BACKWARD, INNER,
        JOINT_PASSES, POST_GRAD,
    ),
    proof=(Graph,),
)  # fmt: skip
