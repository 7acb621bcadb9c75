"""The shape environment of a piece with unbacked sizes: what Inductor can't go on without, it is told.

Unbacked sizes have no value, so that nothing can depend on one. Inductor compiles most of a graph
without a value, but not all of it: how it lays out an operand of a product, say, may depend on
whether there is one row. Such a question would end the compile. It gets the answer for an ordinary
size, which is noted as what the compile assumes, and told like any other dropped guard.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import sympy
import torch
from torch.fx.experimental.symbolic_shapes import (
    GuardOnDataDependentSymNode,
    ShapeEnv,
    ShapeGuard,
    uninteresting_files,
)

_OURS = str(Path(__file__).parent) + os.sep
_TORCH = str(Path(torch.__file__).parent) + os.sep


class UnbackedShapes(ShapeEnv):  # type: ignore[misc]
    """Answers torch's own yes-or-no questions about unbacked sizes where nobody expects no answer.

    A question for the size itself stays an error, since the answer would fix it. So does one of the
    user's code, such as a pass: there the branch may matter for what is computed.
    """

    def __init__(self) -> None:
        super().__init__()
        self.answered: list[ShapeGuard] = []
        """Not among `guards`: of these torch makes conditions of its own caches, for backed sizes only."""

    def evaluate_expr(self, orig_expr: sympy.Basic, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().evaluate_expr(orig_expr, *args, **kwargs)
        except GuardOnDataDependentSymNode:
            answer = self._answer(self.replace(orig_expr))
            asker = _asker(sys._getframe(1))
            if answer is None or not asker.startswith(_TORCH) or _is_expected(sys._getframe(1)):
                raise
            holds = orig_expr if answer == sympy.true else sympy.Not(orig_expr)
            self.answered.append(ShapeGuard(holds, self._get_sloc(asker), size_oblivious=False))
            return answer

    def _answer(self, expr: sympy.Basic) -> Any:
        """True or false at the sizes that tuning assumes; sizes are taken not to equal anything."""
        if not expr.free_symbols <= self.var_to_hint_override.keys():
            return None
        if isinstance(expr, (sympy.Eq, sympy.Ne)):
            return sympy.sympify(isinstance(expr, sympy.Ne))
        answer = expr.xreplace({symbol: sympy.Integer(n) for symbol, n in self.var_to_hint_override.items()})
        return answer if answer in (sympy.true, sympy.false) else None


def _asker(frame: FrameType | None) -> str:
    """The file of the innermost function that is not about symbols itself."""
    passed = uninteresting_files()
    while frame is not None and frame.f_code.co_filename in passed:
        frame = frame.f_back
    return "" if frame is None else frame.f_code.co_filename


def _is_expected(frame: FrameType | None) -> bool:
    """Whether a function of the compiler's handles the error, and goes on without an answer."""
    while frame is not None and not frame.f_code.co_filename.startswith(_OURS):
        if GuardOnDataDependentSymNode.__name__ in frame.f_code.co_names:
            return True
        frame = frame.f_back
    return False
