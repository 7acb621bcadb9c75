"""torch's names of where a value comes from, as the user would write them."""

from __future__ import annotations

import re

_LOCAL = re.compile(r"\b[LG]\[['\"](?P<name>\w+)['\"]\]")
_SLOT = re.compile(r"\._(?:modules|parameters|buffers)\[['\"](?P<name>[^'\"]+)['\"]\]")
_INDEX = re.compile(r"(?P<number>(?<![\w.\]])\d+\.\d+)|\.(?P<index>\d+)(?=\.|\[|$)")
"""The index of a layer, but not the decimals of a number that a guard compares with."""
_IMPORTED = re.compile(r"\b__import_(?P<name>\w*?)(?=$|[^\w])")
_SIZE = re.compile(r"^(?P<tensor>.+)\.size\(\)\[(?P<dim>\d+)\]$")


def shown(source: str) -> str:
    """`self.norm.weight` for `L['self']._modules['norm']._parameters['weight']`."""
    plain = _LOCAL.sub(lambda found: found["name"], source.strip())
    plain = _IMPORTED.sub(lambda found: found["name"].replace("_dot_", "."), plain)
    plain = _SLOT.sub(lambda found: "." + found["name"], plain)
    plain = _INDEX.sub(lambda found: found["number"] or f"[{found['index']}]", plain)
    return plain.replace(".__code__", "").replace("._base", "")


def size_name(source: str) -> str:
    """`x.size(0)` of `L['x'].size()[0]`."""
    tensor, dim = dimension(source)
    return tensor if dim is None else f"{tensor}.size({dim})"


def dimension(source: str) -> tuple[str, int | None]:
    """Tensor and dimension of `L['x'].size()[0]`; a plain value has none."""
    found = _SIZE.match(source)
    return (shown(found["tensor"]), int(found["dim"])) if found else (shown(source), None)
