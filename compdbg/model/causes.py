"""torch's reasons for a recompile, read into what varied: a size, a stride, an attribute, an object."""

from __future__ import annotations

import re

from msgspec import Struct

from compdbg.model.sources import shown

_TENSOR = re.compile(
    r"tensor '(?P<source>.+?)' "
    r"(?P<what>size|stride|rank|dtype|device|dispatch key set|requires_grad) mismatch"
    r"(?: at index (?P<axis>\d+))?\.? ?(?:expected (?P<wanted>.+?))?(?:,? actual (?P<seen>.+))?$"
)
_DEAD = re.compile(r"^Cache line invalidated because (?P<source>.+?) got deallocated")
_TENSOR_TYPE = re.compile(r"(?:expected type of '(?P<source>.+?)' to be a tensor|tensor '(?P<other>.+?)')")
_GLOBAL = re.compile(r"GLOBAL_STATE changed: (?P<token>.*)$")
_IDENTITY = re.compile(r"___check_obj_id\((?P<source>.+?), \d+\)")
_TYPE = re.compile(r"___check_type_id\((?P<source>.+?), \d+\)")
_LENGTH = re.compile(
    r"^(?:len\((?P<source>.+?)\) (?:==|!=|>=) ?(?P<wanted>\d+)|not (?P<empty>[\w.\[\]'\"]+))$"
)
_NONE = re.compile(r"^(?P<source>.+?) is (?:not )?None$")
_EQUALS = re.compile(r"^(?P<source>[^=<>]+?) == (?P<wanted>.+)$")
_SIZE = re.compile(r"(?P<source>[\w.\[\]'\"]+?)\.(?:size|stride)\(\)\[(?P<axis>\d+)\]")
_ZERO_ONE = re.compile(r"^2 <= (?P<source>.+?)\.size\(\)\[(?P<axis>\d+)\]$|^2 <= (?P<value>\S+)$")
_CLOSURE = re.compile(r'HINT: guard on "(?P<name>\w+)"')
_MODULE_INT = "integer attributes of the nn.Module to be static"


class Cause(Struct, frozen=True):
    """What varied: its kind, of what, along which axis; the value guarded for and the one that came."""

    kind: str
    subject: str
    axis: int | None = None
    wanted: str | None = None
    seen: str | None = None

    @property
    def special(self) -> set[str]:
        """The sizes 0 and 1 that it involves: torch compiles each of them for itself."""
        return {value for value in (self.wanted, self.seen) if value in ("0", "1")}

    @property
    def group(self) -> tuple[str, str, int | None]:
        return self.kind, self.subject, self.axis


def guard_of(text: str) -> str:
    """The guard itself, without torch's remarks on it."""
    return text.partition(" # ")[0].strip()


def read_reason(text: str) -> Cause:
    """One of torch's reasons as a cause."""
    guard = guard_of(text)
    readers = (_read_tensor, _read_state, _read_object, _read_size)
    for reader in readers:
        cause = reader(guard, text)
        if cause is not None:
            return cause
    return Cause("other", guard[:120])


def _read_tensor(guard: str, _text: str) -> Cause | None:
    found = _TENSOR.search(guard)
    if found is None:
        is_type = _TENSOR_TYPE.search(guard)
        return Cause("type", shown(is_type["source"] or is_type["other"])) if is_type else None
    what, source = found["what"], shown(found["source"])
    axis = int(found["axis"]) if found["axis"] else None
    kind = {"size": "shape", "dispatch key set": "dispatch-keys"}.get(what, what)
    return Cause(kind, source, axis, found["wanted"], found["seen"])


def _read_state(guard: str, _text: str) -> Cause | None:
    found = _GLOBAL.search(guard)
    if found is not None:
        tokens = found["token"].split()
        return Cause("grad-mode" if "grad_mode" in tokens else "global-state", " ".join(tokens))
    if guard.startswith("BACKEND_MATCH"):
        return Cause("backend", "backend")
    if guard.startswith("Duplicate tensor"):
        return Cause("aliasing", guard.partition(":")[2].strip() or "inputs")
    return None


def _read_object(guard: str, _text: str) -> Cause | None:
    found = _IDENTITY.search(guard) or _DEAD.search(guard)
    if found is not None:
        source = shown(found["source"])
        return Cause("instance" if source == "self" else "identity", source)
    found = _TYPE.search(guard)
    if found is not None:
        return Cause("type", shown(found["source"]))
    found = _NONE.match(guard)
    if found is not None:
        return Cause("none-or-value", shown(found["source"]), wanted="None")
    found = _LENGTH.match(guard)
    if found is not None:
        return Cause("container", shown(found["source"] or found["empty"]), wanted=found["wanted"] or "0")
    return None


def _read_size(guard: str, text: str) -> Cause | None:
    found = _ZERO_ONE.match(guard)
    if found is not None:
        axis = int(found["axis"]) if found["axis"] else None
        return Cause("zero-one", shown(found["source"] or found["value"]), axis)
    found = _SIZE.search(guard)
    if found is not None:
        return Cause("branch", shown(found["source"]), int(found["axis"]), wanted=guard)
    found = _EQUALS.match(guard)
    if found is None:
        return None
    source = shown(found["source"])
    closed_over = _CLOSURE.search(text) if ".__closure__[" in source else None
    if closed_over is not None:
        function = source.partition(".__closure__")[0]
        return Cause("closure", f"{closed_over['name']} of {function}", wanted=found["wanted"])
    if source.endswith(".training"):
        return Cause("training-mode", "training", wanted=found["wanted"])
    kind = "attribute" if _MODULE_INT in text or "." in source else "value"
    if found["source"].startswith("G["):
        kind = "global"
    if found["wanted"].strip("'\"") != found["wanted"] or found["wanted"] in ("True", "False"):
        kind = "constant" if kind == "value" else kind
    return Cause(kind, source, wanted=found["wanted"])
