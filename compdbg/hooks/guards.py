"""Guards: all that torch builds for a compiled entry, which it keeps, and the audit of the others.

With a filter torch builds all guards, asks the filter, and builds again what it keeps. The first of
these trees it throws away; we keep it, and check later calls against it.
"""

from __future__ import annotations

import dis
import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any

from compdbg import probe
from compdbg.events import Guards
from compdbg.hooks import (
    compile_facts,
    current,
    frame_calls,
    graph_facts,
    guard_building,
    shape_guards,
    size_branches,
    tensor_reads,
)
from compdbg.hooks.base import Hook, Part, Patches, Target, contained
from compdbg.hooks.frame_calls import calls_of
from compdbg.hooks.guard_building import Building
from compdbg.hooks.guard_entries import enter
from compdbg.hooks.guard_records import name_of_filter
from compdbg.record import options

__all__ = ["HOOK", "calls_of"]

_MANAGER = "torch._dynamo.guards:CheckFunctionManager"
INIT = Target(f"{_MANAGER}.__init__", ("f_code", "output_graph", "guard_filter_fn"))
BUILD = Target(f"{_MANAGER}.build_guards", ("sorted_guards", "f_code", "output_graph"))
RESET = Target("torch._dynamo:reset_code_caches")
TENSOR_TEXT = Target("torch._dynamo.guards:get_tensor_guard_code_part", ("value", "name", "sizes", "strides"))


def _install_guards(patches: Patches) -> None:
    if patches.wrap(BUILD, _on_build):
        patches.wrap(INIT, _on_init)
    patches.wrap(TENSOR_TEXT, _on_tensor)


def _on_init(original: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(original)
    twice = _builds_twice(original)

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        building, given = None, {}
        if probe.active():
            with contained("guards"):
                given = signature.bind(self, *args, **kwargs).arguments
                if not getattr(given["output_graph"], "export", False):
                    building = _begin(self, given.get("guard_filter_fn"), twice)
        if building is None:
            original(self, *args, **kwargs)
            return
        guard_building.push(building)
        try:
            original(self, *args, **kwargs)
        finally:
            guard_building.pop()
        with contained("guards"):
            enter(building, self.guard_manager, given["f_code"])

    return __init__


def _builds_twice(init: Callable[..., Any]) -> bool:
    """Whether torch builds all guards first and what it keeps again: only then the first tree is free."""
    code = inspect.unwrap(init).__code__
    return len([step for step in dis.get_instructions(code) if step.argval == "build_guards"]) >= 2


def _begin(manager: Any, guard_filter: Any, twice: bool) -> Building:
    config = sys.modules.get("torch._dynamo.config")
    by = name_of_filter(guard_filter) if guard_filter is not None else ""
    if not by and getattr(config, "caching_precompile", False):
        by = "torch._dynamo.config.caching_precompile"
    facts = compile_facts.take(current.compile_id())
    audit = bool(by) and twice and options.current().audit != "off"
    return Building(manager, facts, by, audit=audit)


def _on_build(original: Callable[..., Any]) -> Callable[..., Any]:
    def build_guards(self: Any, sorted_guards: Any, *args: Any, **kwargs: Any) -> Any:
        building = guard_building.of(self)
        if building is None:
            return original(self, sorted_guards, *args, **kwargs)
        return building.build(functools.partial(original, self), sorted_guards, args, kwargs)

    return build_guards


def _on_tensor(original: Callable[..., Any]) -> Callable[..., Any]:
    def get_tensor_guard_code_part(value: Any, name: str, sizes: Any, strides: Any, *more: Any) -> Any:
        text = original(value, name, sizes, strides, *more)
        building = guard_building.innermost()
        if building is not None:
            with contained("guards"):
                building.note_tensor(text, value, name, sizes, strides, *more)
        return text

    return get_tensor_guard_code_part


def _install_dynamo(patches: Patches) -> None:
    def observe(original: Callable[..., Any]) -> Callable[..., Any]:
        def reset_code_caches(*args: Any, **kwargs: Any) -> Any:
            answer = original(*args, **kwargs)
            with contained("guards"):
                frame_calls.close_cached()
            return answer

        return reset_code_caches

    patches.wrap(RESET, observe)


def _install_output_graph(patches: Patches) -> None:
    graph_facts.install(patches)


def _install_symbolic_shapes(patches: Patches) -> None:
    shape_guards.install(patches)
    size_branches.install_symbolic_shapes(patches)


def _install_variables(patches: Patches) -> None:
    size_branches.install_variables(patches)
    tensor_reads.install(patches)


def _install_torch_functions(patches: Patches) -> None:
    tensor_reads.install_torch(patches)


HOOK = Hook(
    "guards",
    (
        Part("torch._dynamo", _install_dynamo),
        Part("torch._dynamo.guards", _install_guards),
        Part("torch._dynamo.output_graph", _install_output_graph),
        Part("torch._dynamo.variables.tensor", _install_variables),
        Part("torch._dynamo.variables.torch", _install_torch_functions),
        Part("torch.fx.experimental.symbolic_shapes", _install_symbolic_shapes),
    ),
    (
        INIT, BUILD, RESET, TENSOR_TEXT, graph_facts.BACKEND, shape_guards.PLACE, shape_guards.UNINTERESTING,
        size_branches.EVALUATE, size_branches.COMPARE, *tensor_reads.TARGETS,
    ),
    proof=(Guards,),
)  # fmt: skip

probe.at_end(frame_calls.tell_all)
probe.at_end(frame_calls.forget_all)
probe.at_fork(frame_calls.drop_parents_counts)
