"""The code that Inductor wrote for a graph, and with a cached artifact the graph it was made of."""

from __future__ import annotations

from typing import Any

from compdbg import probe
from compdbg.events import GeneratedCode, Graph
from compdbg.hooks.current import compile_id
from compdbg.record.options import current

_KERNEL = "= async_compile."


def record_output(graph: str, output: Any, *, cached: bool = False) -> None:
    """Emit the code of a compiled graph; nothing where no source is to be recorded."""
    if not current().source:
        return
    code = getattr(output, "source_code", None)
    if not isinstance(code, str) or not code:
        return
    if cached:
        _record_cached_graph(graph, getattr(output, "inductor_post_grad_graph_str", None))
    probe.emit(
        GeneratedCode(
            graph=graph,
            path=str(getattr(output, "cache_key", "") or ""),
            text=probe.payload(code),
            compile_id=compile_id(),
            kernels=code.count(_KERNEL),
        )
    )


def _record_cached_graph(graph: str, text: Any) -> None:
    if isinstance(text, str) and text:
        event = Graph(
            graph=graph, stage="post-grad", text=probe.payload(text), compile_id=compile_id(), cached=True
        )
        probe.emit(event)
