"""Buffers that a forward assigns: harmless to eager code, silently wrong under capture.

A capture reads a buffer at the address that it had; `self.b = ...` puts another tensor in its
place on every call, which the next replay does not see.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import torch

from compdbg.events import Where


class BufferAssignedError(RuntimeError):
    """A tensor attribute is assigned in a forward that is to be captured."""


class Assignment(NamedTuple):
    """`self.name = ...` at one line of a traced function."""

    name: str
    where: Where


def check_no_buffer_is_assigned(result: Any, model: Any) -> None:
    """Raise BufferAssignedError, with the line, where traced code assigns a tensor attribute."""
    found = next(iter(assigned_tensors(result, model)), None)
    if found is not None:
        raise BufferAssignedError(
            f"{found.where.file}:{found.where.line}: {found.where.function} assigns {found.name}, a tensor "
            "of the model: a captured call goes on reading the tensor that was there at capture. Write "
            f"into it instead ({found.name}.copy_(...)), or set cudagraph_mode to NONE."
        )


def assigned_tensors(result: Any, model: Any) -> Iterator[Assignment]:
    """Assignments that Dynamo's code carries out after the graph, of what holds tensors in the model."""
    code = result._artifacts.runtime_env.bytecode
    if not {"update", "object_setattr_ignore_descriptor", "__setattr__"} & set(code.co_names):
        return
    constants = {constant for constant in code.co_consts if isinstance(constant, str)}
    candidates = constants & _tensor_names(model)
    if candidates:
        for assignment in _assignments(result.source_info().inlined_sources):
            if assignment.name.rpartition(".")[2] in candidates:
                yield assignment


def _tensor_names(model: Any) -> set[str]:
    modules = model.modules() if isinstance(model, torch.nn.Module) else [model]
    names: set[str] = set()
    for module in modules:
        names.update(getattr(module, "_buffers", ()))
        names.update(name for name, value in vars(module).items() if isinstance(value, torch.Tensor))
    return names


def _assignments(sources: Iterable[Any]) -> Iterator[Assignment]:
    for source in sources:
        module = sys.modules.get(source.module)
        if module is None or source.module.partition(".")[0] == "torch":
            continue
        try:
            file = inspect.getsourcefile(module) or source.module
            tree = ast.parse(inspect.getsource(module))
        except (OSError, TypeError, SyntaxError):
            continue
        yield from _in_lines(tree, file, source.firstlineno, source.lastlineno)


def _in_lines(tree: ast.AST, file: str, first: int, last: int) -> Iterator[Assignment]:
    functions = (node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))
    for function in functions:
        if not first <= function.lineno <= last:
            continue
        for node in ast.walk(function):
            match node:
                case ast.Assign(targets=targets):
                    pass
                case ast.AnnAssign(target=target):
                    targets = [target]
                case _:  # `self.b += x` writes in place and puts the same tensor back
                    continue
            for each in targets:
                if isinstance(each, ast.Attribute):
                    yield Assignment(ast.unparse(each), Where(file, node.lineno, function.name))
