"""Pieces that came from vLLM's AOT artifact: which there are, for which ranges, and which are twins.

Nothing is traced, split or compiled then. The artifact knows its pieces by name, and holds the code
of equal ones once.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from compdbg import probe
from compdbg.events import Piece, PieceCompiled
from compdbg.hooks.base import Patches, contained
from compdbg.hooks.vllm_targets import AOT_REBUILD

HOOK = "vllm"


def install(patches: Patches) -> None:
    patches.wrap(AOT_REBUILD, _recorded_rebuild)


def _recorded_rebuild(original: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(original)

    def reconstruct(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        if probe.active():
            with contained(HOOK):
                given = signature.bind(*args, **kwargs).arguments
                _record(given["state"], given["standalone_compile_artifacts"])
        return result

    return reconstruct


def _record(state: dict[str, Any], artifacts: Any) -> None:
    """`submodule_bytes` maps `submod_0_(1, 2048)` to the hash of its code."""
    graph = str(state["prefix"])
    ranges: dict[str, dict[str, str]] = {}
    for key, digest in artifacts.submodule_bytes.items():
        piece, sizes = key.rsplit("_", 1)
        ranges.setdefault(piece, {})[_range_of(sizes)] = str(digest)
    names = list(dict.fromkeys([*(state.get("submod_names") or ()), *ranges]))
    for name in sorted(names, key=_place):
        _record_piece(graph, name, ranges)
    for name, by_range in ranges.items():
        for sizes in by_range:
            probe.emit(
                PieceCompiled(graph=graph, piece=name, range=sizes, reused=True, backend="AOT artifact")
            )


def _record_piece(graph: str, name: str, ranges: dict[str, dict[str, str]]) -> None:
    mine = ranges.get(name)
    twin = next((other for other, theirs in ranges.items() if theirs == mine), None)
    probe.emit(
        Piece(
            graph=graph,
            piece=name,
            piece_kind="splitting" if mine is None else "compiled",
            shared_with=twin if twin != name else None,
            loaded=True,
        )
    )


def _place(name: str) -> tuple[int, str]:
    """Pieces in their order: `submod_10` after `submod_9`."""
    number = name.rpartition("_")[2]
    return (int(number) if number.isdecimal() else 0, name)


def _range_of(text: str) -> str:
    """`(1, 2048)` as `1-2048`, `(4, 4)` as `4`."""
    start, _, end = text.strip("()").partition(", ")
    return start if start == end else f"{start}-{end}"
