"""`torch.fx.passes.split_module`: the pieces that a backend of anybody's makes of its graph.

torch's own callers (export, constant folding, pipelining, buckets of DDP) are left out, and splits
outside a compile: their parts are not compiled apart to be shared. vLLM's are seen where it names them.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

from compdbg import probe
from compdbg.events import Piece
from compdbg.hooks import current
from compdbg.hooks import piece_structure as structure
from compdbg.hooks.base import Hook, Part, Patches, Target, contained
from compdbg.hooks.graphtext import graph_text

NAME = "splits"
SPLIT = Target("torch.fx.passes.split_module:split_module", ("m", "split_callback"))
_NOT_OBSERVED = ("torch.", "vllm.", "compdbg.")
_TORCHS_OWN = ("aten::", "prims::", "prim::", "inductor::", "higher_order::")


def _around_split(original: Callable[..., Any]) -> Callable[..., Any]:
    def split_module(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        if probe.active() and current.graph_name() != "?":
            with contained(NAME):
                caller = sys._getframe(1)
                if not str(caller.f_globals.get("__name__", "")).startswith(_NOT_OBSERVED):
                    _record(result, caller.f_code.co_name)
        return result

    return split_module


def _record(split: Any, splitter: str) -> None:
    graph = current.graph_name()
    pieces = _children(split)
    structures = [structure.structure_of(module) for _, module in pieces]
    taken_as = _taken_as(split, dict(pieces))
    earlier: list[structure.Piece] = []
    for (name, module), found in zip(pieces, structures, strict=True):
        splits = _is_splitting(found)
        twin = None if splits else structure.twin_of(found, earlier)
        related = None if splits or twin else structure.related_to(found, earlier)
        event = Piece(
            graph=graph,
            piece=name,
            piece_kind="splitting" if splits else "compiled",
            ops=found.ops,
            split_op=", ".join(dict.fromkeys(_calls(found))) if splits else None,
            shared_with=twin,
            related_to=related.name if related else None,
            differs_by=structure.difference(found, earlier) if related else None,
            apart=structure.apart(found, related) if related else [],
            inputs=structure.inputs_of(module),
            outputs=[
                msgspec.structs.replace(out, name=taken_as.get((name, i), out.name))
                for i, out in enumerate(structure.outputs_of(module))
            ],
            op_counts=dict(Counter(found.computing)),
            text=probe.payload(graph_text(module.graph)),
            splitter=splitter,
        )
        probe.emit(event)
        if not splits:
            earlier.append(structure.Piece(name, found))


def _children(split: Any) -> list[tuple[str, Any]]:
    """The pieces in the order of their calls."""
    called = [node.target for node in split.graph.nodes if node.op == "call_module"]
    children = dict(split.named_children())
    found = [(str(name), children[name]) for name in dict.fromkeys(called) if name in children]
    return [(name, module) for name, module in found if hasattr(module, "graph")]


def _taken_as(split: Any, pieces: dict[str, Any]) -> dict[tuple[str, int], str]:
    """Piece and place of a result -> what its taker calls it: its name in the graph."""
    found: dict[tuple[str, int], str] = {}
    for node in split.graph.nodes:
        module = pieces.get(str(node.target)) if node.op == "call_module" else None
        if module is None:
            continue
        names = [inner.name for inner in module.graph.nodes if inner.op == "placeholder"]
        for name, given in zip(names, node.args, strict=False):
            source, index = given, 0
            if given.op == "call_function" and given.args and type(given.args[-1]) is int:
                source, index = given.args
            if source.op == "call_module":
                found.setdefault((str(source.target), index), name)
    return found


def _is_splitting(found: structure.Structure) -> bool:
    """Only operators of the program's own: what a backend splits off is not compiled."""
    calls = _calls(found)
    return bool(calls) and all("::" in name and not name.startswith(_TORCHS_OWN) for name in calls)


def _calls(found: structure.Structure) -> list[str]:
    """The operators; taking the results of one apart is none."""
    return [name for name in found.op_names if name != "getitem"]


def _install(patches: Patches) -> None:
    patches.wrap_bound(SPLIT, _around_split)


HOOK = Hook(NAME, (Part("torch.fx.passes.split_module", _install),), (SPLIT,), proof=(Piece,))
