"""The statements of a file that decide what a name in it stands for, without the rest of the file.

Code is followed through what it names. A list that an import fills, or a function that a decorator
registers, can't be followed from the value: there the statements are compared that made it so.
"""

from __future__ import annotations

import ast
import functools
import os
import types
from collections.abc import Collection, Iterator
from typing import NamedTuple

_DEFINES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_IMPORTS = (ast.Import, ast.ImportFrom)


class _Statement(NamedTuple):
    text: str
    gives: frozenset[str]
    """The names that it binds, or whose values it may change."""
    uses: frozenset[str]


def deciding_statements(file: str, names: Collection[str]) -> str:
    """Those that give `names` their values, and what these use. Comments and layout are left out."""
    try:
        found = os.stat(file)
        statements = _statements(file, found.st_mtime_ns, found.st_size)
    except (OSError, SyntaxError, ValueError):
        return ""  # `<stdin>`, or no Python
    wanted, taken = set(names), [False] * len(statements)
    while True:
        reached = [
            i for i, each in enumerate(statements) if not taken[i] and not wanted.isdisjoint(each.gives)
        ]
        if not reached:
            return "\n".join(each.text for each, is_taken in zip(statements, taken, strict=True) if is_taken)
        for i in reached:
            taken[i] = True
            wanted |= statements[i].uses


def global_names(code: types.CodeType) -> set[str]:
    """The names of globals and attributes in code, and in code inside it."""
    inner = (global_names(each) for each in code.co_consts if isinstance(each, types.CodeType))
    return set(code.co_names).union(*inner)


@functools.lru_cache(maxsize=256)
def _statements(file: str, changed: int, size: int) -> tuple[_Statement, ...]:
    with open(file, "rb") as source:
        tree = ast.parse(source.read())
    imported = frozenset(
        name for each in ast.walk(tree) if isinstance(each, _IMPORTS) for name in _bound(each)
    )
    return tuple(
        _Statement(ast.dump(each), frozenset(_gives(each, imported)), frozenset(_uses(each, file)))
        for each in tree.body
    )


def _uses(statement: ast.stmt, file: str) -> set[str]:
    if isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
        return set()
    return global_names(compile(ast.Module([statement], []), file, "exec", dont_inherit=True))


def _gives(statement: ast.stmt, imported: frozenset[str]) -> Iterator[str]:
    """Of modules that are imported no change is followed."""
    for node in _outside_functions(statement):
        if isinstance(node, _DEFINES):
            yield node.name
            yield from _named(node.decorator_list) - imported
        elif isinstance(node, _IMPORTS):
            yield from _bound(node)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.Expr):
            yield from _named([node]) - imported
        elif isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
            yield from _root(node) - imported
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield from _root(node.func) - imported


def _outside_functions(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    if not isinstance(node, (*_DEFINES, ast.Lambda)):
        for child in ast.iter_child_nodes(node):
            yield from _outside_functions(child)


def _bound(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    return (alias.asname or alias.name.partition(".")[0] for alias in node.names)


def _named(nodes: Collection[ast.AST]) -> set[str]:
    return {each.id for node in nodes for each in ast.walk(node) if isinstance(each, ast.Name)}


def _root(node: ast.AST) -> set[str]:
    """`table` of `table.rows[0]`."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return {node.id} if isinstance(node, ast.Name) else set()
