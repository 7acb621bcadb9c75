"""Guards as conditions in Python, in the names of the user."""

from __future__ import annotations

import re

from compdbg.model.sources import shown

_TENSOR = re.compile(
    r"check_tensor\((?P<source>.+?), \w+, DispatchKeySet\(.*?\), (?P<dtype>[\w.]+), "
    r"device=(?P<device>[^,]+), requires_grad=(?P<grad>\w+), "
    r"size=\[(?P<size>.*?)\], stride=\[(?P<stride>.*?)\]\)$"
)
_SIZE = re.compile(r"(?P<tensor>[\w.\[\]'\"]+)\.size\(\)\[(?P<dim>\d+)\]")
_TYPE = re.compile(r"___check_type_id\((?P<source>.+?), \d+\), type=<class '(?P<type>[\w.]+)'>$")
_OBJECT = re.compile(r"___check_obj_id\((?P<source>.+?), \d+\)")
_ALIAS = re.compile(r"check_no_aliasing\((?P<sources>.+)\)$")
_ON_STATE = re.compile(r"^(?P<what>.*?) ?\(?(?:checked by )?___check_\w+\(\)\)?$")

_LONGEST = 2000
"""Longer texts stand as they are: looked through by such patterns, a megabyte would take minutes."""


def in_python(expr: str) -> str:
    """A guard as a Python condition: what torch's C++ check compares, in the names of the user."""
    return _in_python(expr) if len(expr) <= _LONGEST else expr


def _in_python(expr: str) -> str:
    if found := _TENSOR.match(expr):
        name = shown(found["source"])
        parts = [f"{name}.dtype == {found['dtype']}", f"{name}.shape == ({_sizes(found['size'])})"]
        if found["grad"] == "True":
            parts.append(f"{name}.requires_grad")
        return " and ".join(parts)
    if found := _TYPE.match(expr):
        return f"type({shown(found['source'])}) is {found['type']}"
    if found := _OBJECT.match(expr):
        return f"{shown(found['source'])} is the same object"
    if found := _ALIAS.match(expr):
        return f"{' and '.join(map(shown, found['sources'].split(', ')))} are not the same tensor"
    if found := _ON_STATE.match(expr):
        return f"{found['what'].strip() or 'global state'} is as it was"
    return shown(_SIZE.sub(lambda s: f"{shown(s['tensor'])}.shape[{s['dim']}]", expr))


def _sizes(text: str) -> str:
    """`*, 4` for the sizes `None, 4`: any size."""
    sizes = ["*" if s.strip() == "None" else s.strip() for s in text.split(",")]
    return ", ".join(sizes) + ("," if len(sizes) == 1 else "")
