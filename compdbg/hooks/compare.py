"""Compiled graphs beside eager, on some of their calls: `--compare eager` only.

Dynamo's graph is kept before the backend has it. On a checked call it is run twice by eager, on copies
where it writes to its inputs, and then once as compiled, by the program's own call.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from typing import Any

from compdbg import probe
from compdbg.events import Compared
from compdbg.hooks import compare_models, compiling
from compdbg.hooks.base import Hook, Part, Patches, Target, contained
from compdbg.hooks.comparison import NotComparable, Reference, backend_of, form_of
from compdbg.hooks.current import compile_id, graph_name
from compdbg.hooks.journal import under_journal
from compdbg.hooks.ops import IMPL, wrapping_kernels
from compdbg.hooks.userline import of_code

NAME = "compare"
_COMPILE = Target("torch._dynamo.output_graph:OutputGraph.call_user_compiler", ("gm",))
CALLS = frozenset({1, 2, 16, 256, 4096})
SIGNATURES = 16
"""Calls with inputs of so many other shapes are checked too."""


class Watched:
    """One compiled graph: its calls so far, and the eager graph to compare with."""

    def __init__(self, gm: Any, backend: str) -> None:
        under_way = compiling.top()
        self.graph = graph_name()
        self.compile_id = compile_id()
        self.frame = under_way.frame if under_way is not None else ""
        self.where = of_code(under_way.code) if under_way is not None else None
        self.backend = backend
        self.calls = 0
        self.signatures: set[Any] = set()
        self.done = False
        self.reference = Reference(sys.modules["torch"].fx.GraphModule(gm, copy.deepcopy(gm.graph)))

    def due(self, args: tuple[Any, ...]) -> bool:
        self.calls += 1
        if self.done or not probe.active():
            return False
        signature = tuple(tuple(a.shape) if hasattr(a, "shape") else None for a in args)
        if signature not in self.signatures and len(self.signatures) < SIGNATURES:
            self.signatures.add(signature)
            return True
        return self.calls in CALLS

    def expected(self, args: tuple[Any, ...]) -> list[Any] | None:
        """What eager gives for these inputs, if this call is compared."""
        if not self.due(args):
            return None
        try:
            return self.reference.results(args)
        except NotComparable as why:
            self.tell("not-checked", args, reason=str(why))
            return None

    def tell(self, check: Any, args: tuple[Any, ...], **more: Any) -> None:
        self.done = check != "equal"  # one that differs will differ again; what can't be checked, neither
        probe.emit(
            Compared(
                graph=self.graph,
                call=self.calls,
                check=check,
                inputs=_described(args),
                frame=self.frame,
                where=self.where,
                backend=self.backend,
                compile_id=self.compile_id,
                custom_ops=self.reference.custom_ops,
                **more,
            )
        )


def _described(args: tuple[Any, ...]) -> str:
    shapes = [form_of(a) for a in args if hasattr(a, "shape")]
    return ", ".join(shapes[:12]) + (f" and {len(shapes) - 12} more" if len(shapes) > 12 else "")


def _compiling(original: Any) -> Any:
    def call_user_compiler(self: Any, gm: Any, *args: Any, **kwargs: Any) -> Any:
        watched = None
        if probe.active():
            with contained(NAME):
                watched = Watched(gm, backend_of(self))
        compiled = original(self, gm, *args, **kwargs)
        return compiled if watched is None else _comparing(compiled, watched)

    return call_user_compiler


def _comparing(compiled: Callable[..., Any], watched: Watched) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        expected = None
        with contained(NAME):
            expected = watched.expected(args)
        described = args if expected is not None else ()
        result = compiled(*args)
        if expected is not None:
            with contained(NAME):
                found = watched.reference.difference(expected, result)
                if found is None:
                    watched.tell("equal", described)
                else:
                    watched.tell("differs", described, **found)
        return result

    for name in ("__name__", "__qualname__", "__doc__"):
        if hasattr(compiled, name):
            setattr(call, name, getattr(compiled, name))
    return call


def _install(patches: Patches) -> None:
    patches.wrap(_COMPILE, _compiling)


def _install_kernels(patches: Patches) -> None:
    patches.wrap(IMPL, wrapping_kernels(under_journal, NAME))


HOOK = Hook(
    NAME,
    (
        Part("torch", _install_kernels),
        Part("torch._dynamo.output_graph", _install),
        Part(compare_models.MODULE, compare_models.install),
    ),
    (_COMPILE, IMPL, compare_models.SPLIT, compare_models.INIT, compare_models.CALL),
    proof=(Compared,),
)
