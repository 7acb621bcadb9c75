"""The parts of a code object as they are recorded, beside `consts`; by their names without `co_`."""

from __future__ import annotations

NUMBERS = ("argcount", "posonlyargcount", "kwonlyargcount", "nlocals", "stacksize", "flags", "firstlineno")
TEXTS = ("name", "qualname", "filename")
NAMES = ("names", "varnames", "freevars", "cellvars")
BYTES = ("code", "linetable", "exceptiontable")
