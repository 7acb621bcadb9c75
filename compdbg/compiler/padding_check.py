"""COMPDBG_CHECK_PADDING=1: whether rows that padding adds reach a result or live memory.

Each padded replay is done three times from the same state: twice with added rows that show wherever
they get to (NaN, with integers of 0 and then with the last true row's), then with zeros. What differs
from that in the true rows, or in tensors that the graph writes to, came from the added rows. One kind
of integers is not enough: where rows write to one place, which one wins is the device's own choice.
The call then has its usual results and effects.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, get_args

import torch

from compdbg import probe
from compdbg.compiler.arena import copy_values
from compdbg.compiler.capture_rules import callers_line
from compdbg.compiler.dynamic_spec import DynamicSpec
from compdbg.compiler.leak_notes import same
from compdbg.compiler.leak_search import LeakSearch, Mixing, Way
from compdbg.compiler.static_buffers import Integers
from compdbg.compiler.static_metadata import tensors_of
from compdbg.events import PaddingLeak

if TYPE_CHECKING:
    from compdbg.compiler.captured_size import CapturedSize
    from compdbg.compiler.forward_context import ForwardContext
    from compdbg.compiler.placement import Route

State = dict[str, torch.Tensor]


def wanted() -> bool:
    return os.environ.get("COMPDBG_CHECK_PADDING", "") not in ("", "0")


def replay_checked(
    route: Route,
    slot: CapturedSize,
    spec: DynamicSpec,
    inputs: Sequence[Any],
    outer: ForwardContext | None,
    search: LeakSearch | None,
) -> Sequence[Any] | None:
    """What `slot.replay` gives, after a replay with poisoned rows whose traces are recorded and undone."""
    live = _live(route, spec, inputs, outer)
    before = _copies(live)

    def placed(poisoned: Integers | None) -> list[Any] | None:
        for name, tensor in live.items():
            copy_values(tensor, before[name])
        return route.place(inputs, poisoned=poisoned)

    def replay(poisoned: Integers | None = None) -> tuple[Sequence[Any] | None, State]:
        flat = placed(poisoned)
        slot.refusal = "disagree"
        produced = None if flat is None else slot.replay(flat, outer, route.rows)
        return produced, {} if produced is None else _copies(_state(route, produced, live))

    poisoned_states: dict[Integers, State] = {}
    for integers in get_args(Integers):
        produced, poisoned_states[integers] = replay(integers)
        if produced is None:
            return None
    produced, plain = replay()
    leaks = {
        name: integers
        for integers, shown in poisoned_states.items()
        for name in plain
        if not same(plain[name], shown[name])
    }
    if not leaks:
        return produced
    mixing: dict[str, Mixing] = {}
    if search is not None:
        memory = {f"input {p.at}": p.rows for p in route.placements or ()} | live
        alone = Way(lambda: placed(None) and _given(route, spec, inputs), outer)
        for name, integers in leaks.items():
            poisoned = Way(functools.partial(placed, integers), slot.context)
            with slot.seen_again(outer):
                mixing[name] = search.find(
                    name, alone, Way(lambda: placed(None), slot.context), poisoned, memory.get(name)
                )
    produced, again = replay()
    for name, integers in leaks.items():
        if same(plain[name], again[name]):
            shown = poisoned_states[integers][name]
            _emit(slot, route, name, plain[name], shown, mixing.get(name, Mixing()))
    return produced


def _given(route: Route, spec: DynamicSpec, inputs: Sequence[Any]) -> list[Any]:
    """The caller's inputs, as copies where the graph writes to their rows."""
    written = spec.mutated & {placement.at for placement in route.placements or ()}
    return [value.clone() if i in written else value for i, value in enumerate(inputs)]


def _live(
    route: Route, spec: DynamicSpec, inputs: Sequence[Any], outer: ForwardContext | None
) -> dict[str, torch.Tensor]:
    """The caller's tensors that the call may write to: inputs that are passed on, and the metadata's."""
    placed = {placement.at for placement in route.placements or ()}
    names = spec.input_names
    live = {
        names[i] if i < len(names) else f"input {i}": inputs[i]
        for i in sorted(spec.mutated - placed)
        if isinstance(inputs[i], torch.Tensor)
    }
    if outer is not None:
        live |= {f"attn_metadata.{name}": tensor for name, tensor in tensors_of(outer.attn_metadata)}
    return live


def _state(route: Route, produced: Sequence[Any], live: State) -> State:
    outputs = enumerate(route.cut(produced))
    state = {f"output {i}": value for i, value in outputs if isinstance(value, torch.Tensor)}
    written = {f"input {p.at}": p.rows for p in route.placements or ()}
    return state | written | live


def _copies(state: State) -> State:
    return {name: tensor.clone() for name, tensor in state.items()}


def _emit(
    slot: CapturedSize, route: Route, name: str, plain: torch.Tensor, shown: torch.Tensor, mixing: Mixing
) -> None:
    differs = ~torch.isclose(plain, shown, rtol=0, atol=0, equal_nan=True)
    distance = (plain[differs].double() - shown[differs].double()).abs().max().item()
    probe.emit(
        PaddingLeak(
            graph=slot.graph,
            size=route.rows,
            padded_to=slot.size,
            what=name,
            elements=int(differs.sum()),
            max_abs=None if math.isnan(distance) else distance,
            where=callers_line(),
            op=mixing.op,
            node=mixing.node,
            piece=mixing.piece,
            op_where=mixing.where,
            op_writes=mixing.writes,
            told=mixing.told,
        )
    )
