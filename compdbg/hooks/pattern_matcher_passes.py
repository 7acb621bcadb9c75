"""What is known of each `PatternMatcherPass` of this process, without keeping it alive."""

from __future__ import annotations

import itertools
import sys
import threading
import weakref
from collections.abc import Iterator
from typing import Any

from compdbg import probe
from compdbg.events import Pattern, Where
from compdbg.hooks.pattern_matcher_entries import EntryInfo, describe_entries, distinct_entries
from compdbg.hooks.pattern_matcher_owner import Owner, is_torch_class
from compdbg.record.options import current as options

_lock = threading.Lock()
_numbers = itertools.count(1)
_known: weakref.WeakKeyDictionary[Any, PassInfo] = weakref.WeakKeyDictionary()
_graphs: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
_graph_numbers = itertools.count(1)


class PassInfo:
    """One pass: whose it is, and its entries, looked at again whenever there are more of them."""

    def __init__(self, matcher_pass: Any, made_outside_torch: bool, where: Where | None) -> None:
        self.id = f"p{next(_numbers)}"
        self.pass_name = str(getattr(matcher_pass, "pass_name", None) or "")
        self.where = where
        self._home = "" if self.pass_name or made_outside_torch else home_in_torch(matcher_pass)
        self.made_outside_torch = made_outside_torch
        self.custom = made_outside_torch
        self.maker: str | None = None
        self.traced: list[Any] = []
        """Entries (weakly) whose attempts are noted one by one."""
        self.by_pattern: dict[int, list[EntryInfo | None]] = {}
        self._all: list[tuple[EntryInfo, Any, Any]] = []
        """Of each entry: what is known, and weak references to it and to its pattern."""
        self._noted: list[tuple[EntryInfo, Any]] = []
        self._count = -1
        self._told = 0
        self._said: set[Any] = set()
        self._audience: Any = None
        """Weakly, the sink that all this was said to."""

    def refresh(self, matcher_pass: Any) -> None:
        """Look at the entries, if their number has changed."""
        count = sum(map(len, matcher_pass.patterns.values()))
        if count == self._count:
            return
        self._count = count
        entries = list(distinct_entries(matcher_pass))
        infos = describe_entries(entries)
        everything = self.made_outside_torch or options().inductor_patterns
        self.custom = self.made_outside_torch or any(info.custom for info in infos)
        self._all = [(i, weakref.ref(e), weakref.ref(e.pattern)) for i, e in zip(infos, entries, strict=True)]
        self._noted = [(info, pattern) for info, _, pattern in self._all if everything or info.custom]
        self.traced = [entry for info, entry, _ in self._all if everything or info.custom]
        self.by_pattern = {}
        for info, _, pattern in self._all:
            noted = info if everything or info.custom else None
            self.by_pattern.setdefault(id(pattern()), []).append(noted)

    def noted_patterns(self) -> Iterator[tuple[EntryInfo, Any]]:
        """The entries whose attempts are noted, with their patterns."""
        for info, reference in self._noted:
            pattern = reference()
            if pattern is not None:
                yield info, pattern

    def entries_at(self, node: Any) -> list[tuple[EntryInfo, Any]]:
        """Those of them that torch tries at a node."""
        return [(info, pattern) for info, pattern in self.noted_patterns() if node.target in info.ops.first]

    def name_of(self, entry: Any) -> str:
        """The name of one entry."""
        return next((info.name for info, known, _ in self._all if known() is entry), "?")

    def first_time(self, said: Any) -> bool:
        """Whether this has not been said of the pass before; it has been now."""
        self._meet_audience()
        new = said not in self._said
        self._said.add(said)
        return new

    def _meet_audience(self) -> None:
        """A new recording, or a forked child's log, has been told nothing yet."""
        sink = probe.sink()
        if self._audience is None or self._audience() is not sink:
            self._audience = None if sink is None else weakref.ref(sink)
            self._told, self._said = 0, set()

    def names(self, owner: Owner) -> tuple[str, list[str]]:
        """The pass's name, its class's if it has one, and what else it is called."""
        names = [n for n in (owner.class_name, self.pass_name) if n] or [self._fallback()]
        name, *aliases = dict.fromkeys(names)
        return name, aliases

    def patterns_to_tell(self) -> list[Pattern]:
        """All patterns as events, if there are some that no event has told of."""
        self._meet_audience()
        if self._told == len(self._noted):
            return []
        self._told = len(self._noted)
        return [info.as_event() for info, _ in self._noted]

    def _fallback(self) -> str:
        if self.where is None:
            return self._home or f"unnamed pass {self.id}"
        return f"unnamed pass ({self.where.file.rpartition('/')[2]}:{self.where.line})"


def home_in_torch(matcher_pass: Any) -> str:
    """What torch calls a pass that has no name: `post_grad.pass_patterns[1]`."""
    for module_name, module in list(sys.modules.items()):
        if not module_name.startswith("torch._inductor.fx_passes."):
            continue
        for name, value in list(vars(module).items()):
            held = list(value) if isinstance(value, (list, tuple)) else [value]
            at = next((i for i, each in enumerate(held) if each is matcher_pass), None)
            if at is not None:
                index = f"[{at}]" if isinstance(value, (list, tuple)) else ""
                return f"{module_name.rpartition('.')[2]}.{name}{index}"
    return ""


def info_of(matcher_pass: Any) -> PassInfo:
    """What is known of a pass. One that was made before recording began is judged by its entries."""
    with _lock:
        info = _known.get(matcher_pass)
        if info is None:
            own_class = not is_torch_class(type(matcher_pass))
            info = _known[matcher_pass] = PassInfo(matcher_pass, own_class, None)
        return info


def made(matcher_pass: Any, outside_torch: bool, where: Where | None, maker: str | None) -> PassInfo:
    """Note that a pass was made, and in which class's `__init__`."""
    with _lock:
        info = _known[matcher_pass] = PassInfo(matcher_pass, outside_torch, where)
        info.maker = maker
        return info


def registered_in_torchs_passes() -> bool:
    """Whether a pattern from outside was put into a pass of torch's own."""
    return any(info.custom and not info.made_outside_torch for info in list(_known.values()))


def graph_number(graph: Any) -> int:
    """A number for a graph object, the same over all applies to it."""
    with _lock:
        number = _graphs.get(graph)
        if number is None:
            number = _graphs[graph] = next(_graph_numbers)
        return number
