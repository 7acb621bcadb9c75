"""Sizes: which were asked to be dynamic, what they were traced as, and what made one a number."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from compdbg import probe
from compdbg.events import Symbol, SymbolFixed, SymbolJoined
from compdbg.hooks import compiling, userline
from compdbg.hooks.base import Hook, Part, Patches, Target, contained
from compdbg.hooks.specialising import Specialised, what_specialises

AUTOMATIC = Target("torch._dynamo.variables.builder:_automatic_dynamic", ("e", "source", "static_shapes"))
CREATE = Target(
    "torch.fx.experimental.symbolic_shapes:ShapeEnv.create_symbol", ("val", "source", "dynamic_dim")
)
REPLACE = Target("torch.fx.experimental.symbolic_shapes:ShapeEnv._set_replacement", ("a", "tgt", "msg"))

_MARKS = (
    ("_dynamo_strict_unbacked_indices", "mark_unbacked"),
    ("_dynamo_unbacked_indices", "mark_unbacked"),
    ("_dynamo_dynamic_indices", "mark_dynamic"),
    ("_dynamo_weak_dynamic_indices", "maybe_mark_dynamic"),
)
"""Attributes that torch's decorators leave on a tensor, the strongest request first."""
_MARKED_BY_TORCH = ("_min_seqlen_tensor", "_max_seqlen_tensor")
"""Parts of a nested tensor: nobody asked for their sizes."""


def _install_builder(patches: Patches) -> None:
    def observe(original: Callable[..., Any]) -> Callable[..., Any]:
        def _automatic_dynamic(e: Any, tx: Any, source: Any, *args: Any, **kwargs: Any) -> Any:
            context = original(e, tx, source, *args, **kwargs)
            record = compiling.top()
            if record is not None and probe.active():
                with contained("symbols"):
                    _note_marks(record, e, source, context)
            return context

        return _automatic_dynamic

    patches.wrap(AUTOMATIC, observe)


def _note_marks(record: compiling.Compiling, tensor: Any, source: Any, context: Any) -> None:
    """Remember which dimensions of an input the user marked; say at once where torch ignores it."""
    if getattr(source, "member", "") in _MARKED_BY_TORCH:
        return
    marks: dict[int, str] = {}
    for attribute, asked in _MARKS:
        for dim in getattr(tensor, attribute, None) or ():
            marks.setdefault(int(dim), asked)
    if not marks:
        return
    name = source_name(source)
    record.marks[name] = marks
    dynamic_sizes = getattr(context, "dynamic_sizes", None) or ()
    for dim, asked in marks.items():
        kind = getattr(dynamic_sizes[dim], "name", "") if dim < len(dynamic_sizes) else ""
        if kind == "STATIC":
            _say(
                record,
                source=f"{name}.size()[{dim}]",
                value=int(tensor.shape[dim]),
                asked=asked,
                became="static",
                dim=dim,
                why="torch keeps the sizes of parameters and of tensors held by modules static",
            )


def _install_symbolic_shapes(patches: Patches) -> None:
    patches.wrap(CREATE, _on_create)
    patches.wrap(REPLACE, _on_replace)


def _on_create(original: Callable[..., Any]) -> Callable[..., Any]:
    def create_symbol(self: Any, val: Any, source: Any, *args: Any, **kwargs: Any) -> Any:
        made = original(self, val, source, *args, **kwargs)
        record = compiling.top()
        if record is not None and probe.active():
            with contained("symbols"):
                _created(record, val, source, args, kwargs, made)
        return made

    return create_symbol


def _created(
    record: compiling.Compiling,
    val: Any,
    source: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    made: Any,
) -> None:
    dynamic_dim = args[0] if args else kwargs.get("dynamic_dim")
    kind = getattr(dynamic_dim, "name", "DUCK")
    if kind == "STATIC" or not isinstance(val, int):
        return
    is_size, base, dim = _size_of(source)
    if not is_size:
        return
    name = source_name(source)
    constraint = args[1] if len(args) > 1 else kwargs.get("constraint_dim")
    asked = record.marks.get(base, {}).get(-1 if dim is None else dim) or _asked(kind, constraint)
    number = getattr(made, "is_number", False)
    symbol = None if number else str(made)
    if symbol is not None:
        sizes = record.sources.setdefault(symbol, [])
        if name not in sizes:
            sizes.append(name)
    became = "static" if number else "unbacked" if symbol and symbol.startswith(("u", "zuf")) else "dynamic"
    _say(
        record,
        source=name,
        value=val,
        asked=asked,
        became=became,
        symbol=symbol,
        dim=dim,
        zero_one=bool(number) and val in (0, 1),
    )


def _asked(kind: str, constraint: Any) -> str:
    """Who asked for it, of what no mark on the tensor says."""
    if _spec_in_force():
        return "shapes spec"
    if kind in ("DUCK", "INFER_STRIDE"):
        return "dynamic=True"
    if kind.endswith("UNBACKED"):
        return "mark_unbacked" if constraint is None else "automatic"
    return "automatic"


def _spec_in_force() -> bool:
    config = sys.modules.get("torch._dynamo.config")
    names = ("_shapes_spec", "_dynamic_shapes_spec")
    return any(getattr(config, name, None) is not None for name in names)


def _say(record: compiling.Compiling, **fields: Any) -> None:
    """Emit what one size became; a restarted analysis does not repeat it."""
    if record.first_time("symbol", fields["source"], fields["asked"], fields["became"]):
        where = userline.of_code(record.code)
        probe.emit(Symbol(frame=record.frame, compile_id=record.compile_id, where=where, **fields))


def _on_replace(original: Callable[..., Any]) -> Callable[..., Any]:
    def _set_replacement(self: Any, a: Any, tgt: Any, msg: Any, *args: Any, **kwargs: Any) -> Any:
        before = self.replacements.get(a)
        answer = original(self, a, tgt, msg, *args, **kwargs)
        record = compiling.top()
        if record is not None and self.replacements.get(a) != before and probe.active():
            with contained("symbols"):
                _replaced(record, str(a), self.replacements[a], str(msg))
        return answer

    return _set_replacement


def _replaced(record: compiling.Compiling, symbol: str, target: Any, message: str) -> None:
    sources = record.sources.get(symbol, [])
    if not getattr(target, "is_number", False):
        if sources:
            _joined(record, symbol, target, sources)
        return
    value = int(target)
    if not sources or not record.first_time("fixed", symbol, value):
        return
    by: Specialised = what_specialises(sys._getframe(1), value, sources)
    probe.emit(
        SymbolFixed(
            frame=record.frame,
            compile_id=record.compile_id,
            symbol=symbol,
            value=value,
            sources=sources,
            message=message,
            op=by.op,
            node=by.node,
            where=by.where,
            met=by.met,
        )
    )


def _joined(record: compiling.Compiling, symbol: str, target: Any, sources: list[str]) -> None:
    """Two symbols are one from here on; what fixes either fixes both."""
    others = [name for other in target.free_symbols for name in record.sources.get(str(other), ())]
    if record.first_time("joined", symbol, str(target)):
        by = what_specialises(sys._getframe(1), None, sources)
        probe.emit(
            SymbolJoined(
                frame=record.frame,
                compile_id=record.compile_id,
                symbol=symbol,
                into=str(target),
                sources=list(sources),
                others=others,
                op=by.op,
                node=by.node,
                where=by.where,
            )
        )
    if getattr(target, "is_symbol", False):
        merged = record.sources.setdefault(str(target), [])
        merged += [name for name in sources if name not in merged]


def source_name(source: Any) -> str:
    """`L['x'].size()[0]`: a property since 2.10, a method before."""
    name = getattr(source, "name", "")
    return str(name() if callable(name) else name)


def _size_of(source: Any) -> tuple[bool, str, int | None]:
    """Whether a source is a size (or an int input), of which tensor, which dimension."""
    prop = getattr(source, "prop", None)
    if prop is None:
        return True, "", None
    if getattr(prop, "name", "") != "SIZE":
        return False, "", None
    return True, source_name(source.base), getattr(source, "idx", None)


HOOK = Hook(
    "symbols",
    (
        Part("torch._dynamo.variables.builder", _install_builder),
        Part("torch.fx.experimental.symbolic_shapes", _install_symbolic_shapes),
    ),
    (AUTOMATIC, CREATE, REPLACE),
    proof=(Symbol,),
)
