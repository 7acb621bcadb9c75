"""What the user calls the value that a guard is about, and what a value looks like in a word."""

from __future__ import annotations

import enum
import re
import sys
import types
from typing import Any

_SIMPLE = (bool, int, float, complex, str, bytes, type(None))
_LONGEST = 80
_MOST_ITEMS = 8

_CLASS_ATTRIBUTE = re.compile(
    r"dict\(type\((?P<of>.+?)\)(?:\.__mro__\[\d+\])?\.__dict__\)\['(?P<name>\w+)'\]"
)
_MRO_ATTRIBUTE = re.compile(r"type\((?P<of>[^()]+)\)\.__mro__\[\d+\]\.__dict__\['(?P<name>\w+)'\]")
_IMPORTED = re.compile(r"G\['__import_(?P<name>\w+)'\]")
_BUILTIN = re.compile(r"G\['__builtins_dict___\d+'\]\['(?P<name>\w+)'\]")
_SCOPE = re.compile(r"\b[LG]\['(?P<name>[\w.]+)'\]")
_WRAPPED = re.compile(r"^fn\.__self__\b")
"""Where torch wraps what is compiled, as for the forward of a container of torch.nn."""
_MODULE_SLOT = re.compile(
    r"(?:\.__dict__)?(?:\['|\.)(?:_modules|_parameters|_buffers)(?:'\])?\['(?P<name>[\w.]+)'\]"
)
_ENVIRON = re.compile(r"os\.environ\._data\[b'(?P<name>[^']+)'\]")
_DICT_SLOT = re.compile(r"\.__dict__\['(?P<name>\w+)'\]")
_SIZE = re.compile(r"\.size\(\)\[(?P<dim>\d+)\]")
_CELL = re.compile(r"(?P<of>[\w.\[\]']+?)\.__closure__\[(?P<cell>\d+)\]\.cell_contents")


def source_name(source: Any) -> str:
    """`L['x'].size()[0]`: torch's name of a source, a property since 2.10, a method before."""
    name = getattr(source, "name", "")
    return str(name() if callable(name) else name)


def user_name(source: str) -> str:
    """`self.norm.scale` for `L['self']._modules['norm'].__dict__['scale']`."""
    name = _CLASS_ATTRIBUTE.sub(lambda m: f"{m['of']}.{m['name']}", source)
    name = _MRO_ATTRIBUTE.sub(lambda m: f"{m['of']}.{m['name']}", name)
    name = _BUILTIN.sub(lambda m: m["name"], name)
    name = _IMPORTED.sub(lambda m: m["name"].replace("_dot_", "."), name)
    name = _SCOPE.sub(lambda m: m["name"], name)
    name = _WRAPPED.sub("self", name)
    name = _MODULE_SLOT.sub(lambda m: f"[{m['name']}]" if m["name"].isdecimal() else f".{m['name']}", name)
    name = _DICT_SLOT.sub(lambda m: f".{m['name']}", name)
    name = _ENVIRON.sub(lambda m: f"os.environ['{m['name']}']", name)
    return _SIZE.sub(lambda m: f".shape[{m['dim']}]", name)


def with_cells_named(source: str, code_of: Any) -> str:
    """`q` for `L['fn'].__closure__[0].cell_contents`; `code_of` gives the code object of a source."""
    found = _CELL.search(source)
    if found is None:
        return source
    code = code_of(found["of"])
    names = getattr(code, "co_freevars", ())
    index = int(found["cell"])
    if index >= len(names):
        return source
    return names[index] + source[found.end() :] if found.start() == 0 else source


def show(value: Any) -> str:
    """A value in a few words; never by code of the user's."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return _show_tensor(torch, value)
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if type(value) in _SIMPLE:
        return _short(repr(value))
    if type(value) in (tuple, list, set, frozenset, dict):
        return _show_container(value)
    return _show_object(value)


def _show_tensor(torch: Any, tensor: Any) -> str:
    dims = ", ".join(map(str, torch._C.TensorBase.shape.__get__(tensor)))
    kind = "" if type(tensor) in (torch.Tensor, torch.nn.Parameter) else f" ({type(tensor).__name__})"
    return f"a tensor {str(torch._C.TensorBase.dtype.__get__(tensor)).removeprefix('torch.')}[{dims}]{kind}"


def _show_object(value: Any) -> str:
    if isinstance(value, type):
        return f"class {value.__qualname__}"
    if isinstance(value, (types.FunctionType, types.MethodType)):
        code = value.__code__
        return f"function {value.__qualname__} ({code.co_filename}:{code.co_firstlineno})"
    if isinstance(value, types.CodeType):
        return f"code of {value.co_name} ({value.co_filename}:{value.co_firstlineno})"
    if isinstance(value, (types.ModuleType, types.BuiltinFunctionType)):
        return f"{value.__name__}"
    return _short(str(value)) if type(value).__module__ == "torch" else f"a {type(value).__qualname__}"


def _show_container(value: Any) -> str:
    items = list(value.items()) if isinstance(value, dict) else list(value)
    flat = [part for item in items for part in (item if isinstance(value, dict) else (item,))]
    if len(items) <= _MOST_ITEMS and all(type(part) in _SIMPLE for part in flat):
        return _short(repr(value))
    return f"a {type(value).__name__} of {len(items)}"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
