"""Colours for one line of code at a time, so that a text of any length opens at once."""

from __future__ import annotations

from functools import cache, lru_cache

from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.token import Comment, Keyword, Name, Number, String
from pygments.util import ClassNotFound

_ROLES = (
    (Comment, "comment"),
    (String, "string"),
    (Number, "number"),
    (Keyword, "keyword"),
    (Name.Function, "name"),
    (Name.Class, "name"),
    (Name.Decorator, "name"),
    (Name.Builtin, "builtin"),
)
MAX = 2000
"""A longer line is not looked into."""


@cache
def _lexer(language: str) -> Lexer | None:
    try:
        return get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None


@lru_cache(maxsize=4096)
def highlighted(text: str, language: str) -> tuple[tuple[str, str], ...]:
    """The line as stretches with their roles."""
    lexer = _lexer(language)
    if lexer is None or len(text) > MAX:
        return ((text, ""),)
    return tuple((part, _role(kind)) for kind, part in lexer.get_tokens(text) if part)


def _role(kind: object) -> str:
    return next((role for of, role in _ROLES if kind in of), "")
