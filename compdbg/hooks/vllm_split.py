"""vLLM's split: which graph its backend was given, and the pieces that the splitting ops make of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from compdbg import probe
from compdbg.events import Piece
from compdbg.hooks import current, vllm_aot
from compdbg.hooks import piece_structure as structure
from compdbg.hooks.base import Patches, contained
from compdbg.hooks.graphtext import graph_text
from compdbg.hooks.vllm_targets import BACKEND_CALL, SPLIT

HOOK = "vllm"


def install(patches: Patches) -> None:
    patches.wrap(BACKEND_CALL, _named_graph)
    patches.wrap(SPLIT, _recorded_split)


def _named_graph(original: Callable[..., Any]) -> Callable[..., Any]:
    """All that is compiled inside the backend belongs to the graph that Dynamo gave it."""

    def __call__(self: Any, graph: Any, example_inputs: Any) -> Any:
        compile_id = _compile_id_of(graph)
        with current.compiling_graph(compile_id or str(self.prefix)), current.compiling_for(compile_id):
            result = original(self, graph, example_inputs)
        with contained(HOOK):
            vllm_aot.all_pieces_made()
        return result

    return __call__


def _compile_id_of(graph: Any) -> str | None:
    """AOT compilation calls the backend after Dynamo's compile is over; the graph remembers its id."""
    remembered = getattr(graph, "meta", {}).get("dynamo_compile_id")
    return current.compile_id() or (None if remembered is None else current.plain_id(remembered))


def _recorded_split(original: Callable[..., Any]) -> Callable[..., Any]:
    def split_graph(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        if probe.active():
            with contained(HOOK):
                _record_pieces(result[1])
        return result

    return split_graph


def _record_pieces(items: list[Any]) -> None:
    graph = current.graph_name()
    earlier: list[structure.Piece] = []
    for item in items:
        found = structure.structure_of(item.graph)
        splits = bool(item.is_splitting_graph)
        twin = None if splits else structure.twin_of(found, earlier)
        related = None if splits or twin else structure.related_to(found, earlier)
        probe.emit(
            Piece(
                graph=graph,
                piece=item.submod_name,
                piece_kind="splitting" if splits else "compiled",
                ops=found.ops,
                split_op=_split_ops(found) if splits else None,
                shared_with=twin,
                differs_by=structure.difference(found, earlier) if related else None,
                related_to=related.name if related else None,
                apart=structure.apart(found, related) if related else [],
                op_counts=dict(Counter(found.computing)),
                inputs=structure.inputs_of(item.graph),
                outputs=structure.outputs_of(item.graph),
                text=probe.payload(graph_text(item.graph.graph)),
            )
        )
        if not splits:
            earlier.append(structure.Piece(item.submod_name, found))


def _split_ops(found: structure.Structure) -> str:
    """The ops that a splitting piece runs; the `getitem` of a multi-output op is none of them."""
    ops = [name for name in found.op_names if name != "getitem"]
    return ", ".join(dict.fromkeys(ops))
