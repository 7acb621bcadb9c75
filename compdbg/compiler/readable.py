"""Copies for people of what was compiled: the graph with its pieces, and Dynamo's code as Python."""

from __future__ import annotations

import contextlib
import dis
import io
import warnings
from types import CodeType
from typing import TYPE_CHECKING

from compdbg.compiler.codegen import chain_code, graph_code

if TYPE_CHECKING:
    from compdbg.compiler.pieces import Split


def graph_text(split: Split) -> str:
    """The split graph: a function a piece, and the chain that calls them."""
    parts = ["# Names such as _0 stand for the operators in the comment after each function."]
    for piece in split.pieces:
        code = graph_code(piece.module, piece.name)
        names = "\n".join(f"#   _{i} = {_named(value)}" for i, value in enumerate(code.table))
        parts.append(f"# {piece.kind}\n{code.source}{names}")
    parts.append(chain_code(split, "forward").source)
    return "\n\n".join(parts)


def _named(value: object) -> str:
    text = str(value)
    if not text.startswith("<"):
        return text
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', text)}"


def decompiled(code: CodeType) -> str:
    """Dynamo's code for a frame as Python source; as bytecode where that can't be decompiled."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            import depyf

            return str(depyf.decompile(code))
        except Exception as error:
            reason = f"# depyf could not decompile this: {type(error).__name__}: {error}"
    listing = io.StringIO()
    dis.dis(code, file=listing)
    return f"{reason}\n{listing.getvalue()}"
