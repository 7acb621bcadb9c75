"""How Inductor writes down an operator and its arguments in its messages: shortly, while we compile.

Its own text of an argument holds the text of all that the argument was made from, once for each use. In
a chain of opaque operators, each of which is used twice, as with a residual, that doubles from operator to
operator. It is made for every operator whose lowering fails and, before torch 2.13, for every operator
without a lowering that a process meets for the first time: 16 layers then take hours.

Private names, seen in torch 2.11 to 2.14.1: `torch._inductor.exc.OperatorIssue.operator_str`,
`torch._inductor.ir.IRNode`, with `get_dtype`, `get_size` and `maybe_get_name`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

LONGEST = 200
"""Characters of an argument that is no tensor."""


@contextlib.contextmanager
def short_operator_text() -> Iterator[None]:
    """While this holds, an operator's text is a line for each argument; on a torch without it, its own."""
    from torch._inductor import exc

    issue: Any = getattr(exc, "OperatorIssue", None)
    if "operator_str" not in vars(issue or object):
        yield
        return
    theirs = vars(issue)["operator_str"]
    issue.operator_str = staticmethod(operator_text)
    try:
        yield
    finally:
        issue.operator_str = theirs


def operator_text(target: Any, args: Any, kwargs: dict[str, Any]) -> str:
    """The operator, then each argument: a tensor by dtype, size and the buffer that it is."""
    named = [*((f"args[{i}]", arg) for i, arg in enumerate(args)), *kwargs.items()]
    return "\n".join([f"  target: {target}", *(f"  {name}: {_described(arg)}" for name, arg in named)])


def _described(arg: Any) -> str:
    from torch._inductor.ir import IRNode

    if isinstance(arg, IRNode):
        return _tensor(arg)
    if isinstance(arg, (list, tuple)):
        return f"[{', '.join(map(_described, arg))}]"
    return repr(arg)[:LONGEST]


def _tensor(node: Any) -> str:
    found = [type(node).__name__]
    for ask in (node.maybe_get_name, node.get_dtype, node.get_size):
        with contextlib.suppress(Exception):  # not every kind of node has all of them
            found.append(str(ask()))
    return " ".join(found)
