"""Decisions over sizes that Dynamo takes while it traces, and the sizes 0 and 1 that reverse them.

Every dynamic size is bounded below by 2, so `if n == 1` is decided without a guard of its own. A
decision in the user's code is a branch that is wrong for the reversing sizes; one that torch takes
inside an op, mostly about memory layout, is not. Ops whose result has another shape at other sizes
are found by `op_shapes`.
"""

from __future__ import annotations

import operator
import re
import sys
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

from compdbg import probe
from compdbg.events import SizeBranch
from compdbg.hooks import compile_facts
from compdbg.hooks.base import Patches, Target, contained
from compdbg.hooks.compile_facts import Branch, Facts
from compdbg.hooks.guard_names import source_name, user_name
from compdbg.hooks.userline import is_our_file, is_user_file

EVALUATE = Target(
    "torch.fx.experimental.symbolic_shapes:ShapeEnv.evaluate_sym_node", ("sym_node", "fallback_value")
)
COMPARE = Target("torch._dynamo.variables.tensor:SymNodeVariable.create", ("tx", "proxy"))

_COMPARISONS: dict[Any, tuple[str, str]] = {
    operator.eq: ("Eq", "=="), operator.ne: ("Ne", "!="), operator.lt: ("Lt", "<"),
    operator.le: ("Le", "<="), operator.gt: ("Gt", ">"), operator.ge: ("Ge", ">="),
}  # fmt: skip
_ZERO_ONE = (0, 1)
_MOST_SYMBOLS = 3
_PLUMBING = ("/fx/experimental/", "/torch/__init__.py", "/torch/utils/_sympy/")


def install_symbolic_shapes(patches: Patches) -> None:
    patches.wrap(EVALUATE, _on_evaluate)


def install_variables(patches: Patches) -> None:
    patches.wrap(COMPARE, _on_compare)


def emit_branches(facts: Facts, frame: str) -> None:
    """Record the decisions of one compile that sizes 0 or 1 would reverse."""
    for branch in facts.branches:
        probe.emit(
            SizeBranch(
                frame=frame,
                compile_id=facts.compile_id,
                expr=branch.expr,
                result=branch.result,
                flips_at=list(branch.flips_at),
                symbols=list(branch.sources),
                where=branch.where,
            )
        )


def _on_evaluate(original: Callable[..., Any]) -> Callable[..., Any]:
    def evaluate_sym_node(
        self: Any, sym_node: Any, size_oblivious: bool = False, fallback_value: Any = None
    ) -> Any:
        answer = original(self, sym_node, size_oblivious, fallback_value)
        if fallback_value is None and probe.active():
            facts = compile_facts.here()
            if facts is not None and not facts.in_backend:
                with contained("guards"):
                    _evaluated(facts, self, sym_node.expr, sys._getframe(1))
        return answer

    return evaluate_sym_node


def _evaluated(facts: Facts, env: Any, expr: Any, frame: FrameType | None) -> None:
    if getattr(expr, "free_symbols", None) and in_users_code(frame) and _first_time(facts, expr):
        _note(facts, env, expr.free_symbols, str(expr), expr.xreplace)


def in_users_code(frame: FrameType | None) -> bool:
    """Whether Dynamo itself asks, for the code that it traces, and not an op that it runs."""
    while frame is not None:
        name = frame.f_code.co_filename
        if not is_our_file(name) and not any(part in name for part in _PLUMBING):
            return "/torch/_dynamo/variables/" in name or name.endswith("/_dynamo/symbolic_convert.py")
        frame = frame.f_back
    return False


def _on_compare(original: Callable[..., Any]) -> Callable[..., Any]:
    def create(cls: Any, tx: Any, proxy: Any, *args: Any, **kwargs: Any) -> Any:
        made = original(cls, tx, proxy, *args, **kwargs)
        if probe.active():
            compared = _COMPARISONS.get(proxy.node.target)
            facts = compile_facts.here() if compared else None
            if facts is not None and compared is not None:
                with contained("guards"):
                    _compared(facts, *compared, proxy.node.args)
        return made

    return create


def _compared(facts: Facts, relation_name: str, sign: str, sides: Any) -> None:
    """A comparison that sympy settles by itself, as `n == 0`, never gets to the shape environment."""
    sympy = sys.modules["sympy"]
    examples = [getattr(side, "meta", {}).get("example_value", side) for side in sides]
    nodes = [getattr(example, "node", None) for example in examples]
    left, right = (
        example if node is None else node.expr for node, example in zip(nodes, examples, strict=True)
    )
    left, right = sympy.sympify(left), sympy.sympify(right)
    env = next((node.shape_env for node in nodes if node is not None), None)
    if env is None or not _first_time(facts, (relation_name, left, right)):
        return
    relation = getattr(sympy, relation_name)
    _note(
        facts,
        env,
        left.free_symbols | right.free_symbols,
        f"{left} {sign} {right}",
        lambda sizes: relation(left.xreplace(sizes), right.xreplace(sizes)),
    )


def _first_time(facts: Facts, what: Any) -> bool:
    """Whether this has not been asked at this line: a restarted analysis asks it all again."""
    key = (what, compile_facts.traced_instruction())
    if key in facts.said:
        return False
    facts.said.add(key)
    return True


def _note(
    facts: Facts, env: Any, symbols: Iterable[Any], text: str, evaluate: Callable[[dict[Any, Any]], Any]
) -> None:
    """Add a branch for each symbol whose 0 or 1 reverses the decision."""
    integer = sys.modules["sympy"].Integer
    values = getattr(env, "backed_var_to_val", None) or getattr(env, "var_to_val", {})
    hints = {symbol: values[symbol] for symbol in symbols if symbol in values}
    if not 0 < len(hints) <= _MOST_SYMBOLS:
        return
    answer = _truth(evaluate(hints))
    if answer is None:
        return
    for symbol in hints:
        bounds = env.var_to_range.get(symbol)
        if bounds is None or bounds.lower != 2:
            continue
        reversed_by = [_truth(evaluate({**hints, symbol: integer(size)})) for size in _ZERO_ONE]
        flips = tuple(
            size for size, truth in zip(_ZERO_ONE, reversed_by, strict=True) if truth not in (answer, None)
        )
        sources = tuple(source_name(source) for source in env.var_to_sources.get(symbol, ()))
        if flips and sources:
            said = re.sub(rf"\b{symbol}\b", user_name(sources[0]), text)
            at = compile_facts.traced_instruction()
            in_library = at is not None and not is_user_file(str(at[0]))
            branch = Branch(sources, said, answer, flips, compile_facts.traced_line(), in_library)
            if not any(known.is_like(branch) for known in facts.branches):
                facts.branches.append(branch)


def _truth(value: Any) -> bool | None:
    return {"True": True, "False": False}.get(str(value))
