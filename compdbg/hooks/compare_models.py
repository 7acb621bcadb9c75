"""Models of the built-in compiler beside eager, on some of their calls: `--compare eager` only.

A model's graph is run twice by eager, in the forward context of the call and with what it writes put back;
then comes the program's own call, compiled, padded or replayed as it is. Warm-ups are not compared.
"""

from __future__ import annotations

import copy
import sys
import threading
from collections import Counter
from typing import Any

from compdbg import probe
from compdbg.events import Compared, Where
from compdbg.hooks import compiling
from compdbg.hooks.base import Patches, Target, contained
from compdbg.hooks.comparison import NotComparable, form_of
from compdbg.hooks.current import compile_id
from compdbg.hooks.model_reference import ModelReference
from compdbg.hooks.userline import of_code

MODULE = "compdbg.compiler.backends"
SPLIT = Target("compdbg.compiler.backends:split_graph", ("module",), "this version")
INIT = Target(
    "compdbg.compiler.compiled_model:CompiledModel.__init__", ("name", "config", "split"), "this version"
)
CALL = Target("compdbg.compiler.compiled_model:CompiledModel.__call__", ("inputs",), "this version")
CALLS = frozenset({16, 256, 4096})
FIRST = 3
"""So many calls of each size are compared: as it is, as it is captured, and as it is replayed."""
SIZES = 64
"""Sizes of which calls are compared."""
TOLD = 8
"""Sizes of a model that differ, told one by one."""
_here = threading.local()


class WatchedModel:
    """One compiled model: its calls so far, and the pieces of its graph to compare with."""

    def __init__(self, model: Any, split: Any, graphs: dict[str, Any]) -> None:
        under_way = compiling.top()
        self.frame = under_way.frame if under_way is not None else ""
        self.where: Where | None = of_code(under_way.code) if under_way is not None else None
        self.compile_id = compile_id()
        self.backend = str(model.config.backend)
        self.split, self.graphs = split, graphs
        self.reference: ModelReference | None = None
        self.calls = 0
        self.of_size: Counter[Any] = Counter()
        self.wrong: set[Any] = set()
        self.done = False

    def expected(self, model: Any, inputs: tuple[Any, ...]) -> list[Any] | None:
        """What eager gives for these inputs, if this call is compared."""
        if _warming_up():
            return None
        self.calls += 1
        if self.done or not probe.active():
            return None
        signature = _signature(inputs)
        known = signature in self.of_size or len(self.of_size) < SIZES
        self.of_size[signature] += known
        due = known and (self.of_size[signature] <= FIRST or self.calls in CALLS)
        if not due or signature in self.wrong:
            return None
        if self.reference is None:
            self.reference = ModelReference(model, self.split, self.graphs)
        try:
            return self.reference.results(inputs)
        except NotComparable as why:
            self.done = True
            self._tell(model, inputs, "not-checked", reason=str(why))
            return None

    def compare(self, model: Any, inputs: tuple[Any, ...], expected: list[Any], result: Any) -> None:
        assert self.reference is not None
        found = self.reference.difference(expected, result)
        if found is None:
            self._tell(model, inputs, "equal")
            return
        self.wrong.add(_signature(inputs))
        self.done = len(self.wrong) >= TOLD
        piece = self.reference.piece_that_differs(model, inputs)
        self._tell(model, inputs, "differs", piece=piece or "", apart_equal=piece == "", **found)

    def _tell(self, model: Any, inputs: tuple[Any, ...], check: Any, **more: Any) -> None:
        served = model.sized.served(inputs)
        probe.emit(
            Compared(
                graph=model.name,
                call=self.calls,
                check=check,
                inputs=_described(model, inputs),
                frame=self.frame,
                where=self.where,
                backend=self.backend,
                compile_id=self.compile_id,
                custom_ops=self.reference.custom_ops if self.reference is not None else [],
                size=served.rows if served is not None else None,
                padded_to=served.padded_to if served is not None else None,
                mode=served.mode if served is not None else "",
                **more,
            )
        )


def _warming_up() -> bool:
    return sys.modules["compdbg.compiler.forward_context"].warming() is not None


def _signature(inputs: tuple[Any, ...]) -> Any:
    return tuple(tuple(a.shape) if hasattr(a, "shape") else a for a in inputs)


def _described(model: Any, inputs: tuple[Any, ...]) -> str:
    """The inputs that are no weights."""
    given = zip(model.spec.input_names or [""] * len(inputs), inputs, strict=False)
    shapes = [
        form_of(value)
        for at, (_, value) in enumerate(given)
        if hasattr(value, "shape") and at not in model.spec.static
    ]
    return ", ".join(shapes[:12]) + (f" and {len(shapes) - 12} more" if len(shapes) > 12 else "")


def _split(original: Any) -> Any:
    """Passes before autograd write into the graph of a piece: what is compared with is copied before."""

    def split_graph(*args: Any, **kwargs: Any) -> Any:
        split = original(*args, **kwargs)
        if probe.active():
            with contained("compare"):
                _here.split = split, {piece.name: _copy(piece.module) for piece in split.pieces}
        return split

    return split_graph


def _copy(module: Any) -> Any:
    return sys.modules["torch"].fx.GraphModule(module, copy.deepcopy(module.graph))


def _graphs_of(split: Any) -> dict[str, Any]:
    """The graphs of the pieces as they were cut; as they are kept of a model that came from a cache."""
    known, copies = getattr(_here, "split", (None, {}))
    if known is split:
        del _here.split
        return copies
    return {}


def _made(original: Any) -> Any:
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        if probe.active():
            with contained("compare"):
                self.watched_by_compare = WatchedModel(self, self.split, _graphs_of(self.split))

    return __init__


def _called(original: Any) -> Any:
    def __call__(self: Any, *inputs: Any) -> Any:
        watched, expected = getattr(self, "watched_by_compare", None), None
        if watched is not None:
            with contained("compare"):
                expected = watched.expected(self, inputs)
        result = original(self, *inputs)
        if watched is not None and expected is not None:
            with contained("compare"):
                watched.compare(self, inputs, expected, result)
        return result

    return __call__


def install(patches: Patches) -> None:
    patches.wrap(SPLIT, _split)
    patches.wrap(INIT, _made)
    patches.wrap(CALL, _called)
