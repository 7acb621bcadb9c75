"""The components of cache keys of two runs: which of them differ, each told once."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from compdbg.compare.facts import lookup_name
from compdbg.compare.graphs import Change
from compdbg.compare.names import Names, plain, script_of
from compdbg.model.caches import Lookup
from compdbg.model.run import Run

_TORCHS = re.compile(r"^\[(\w{20,})\] ([\w.\[\]]+): ", re.MULTILINE)
_PLAIN = re.compile(r"^([^\n:]+): (.*)$", re.MULTILINE)
_FOLLOWS = ("gm", "example_inputs", "fx_kwargs")
"""Components that are the graph and its inputs, of which the other views tell more."""
_DIGEST = re.compile(r"\s*[0-9a-f]{32,}\s*")
_SETTINGS = "inductor_config["
_UNREADABLE = "\ufffd"
_SHOWN = 80


def factor_changes(a: Run, b: Run) -> Iterator[Change]:
    """What differs in the keys of the same look-ups; what differs alike in all of them, once."""
    mine, theirs = _lookups(Names(a), a), _lookups(Names(b, script_of(b, a)), b)
    found: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    only_one: dict[bool, dict[str, None]] = {True: {}, False: {}}
    for key in mine.keys() & theirs.keys():
        if mine[key].key != theirs[key].key:
            for change in _differing(_factors(a, mine[key]), _factors(b, theirs[key])):
                name, before, after = change
                if name.startswith(_SETTINGS) and not (before and after):
                    only_one[bool(before)][name.removeprefix(_SETTINGS).rstrip("]")] = None
                else:
                    found[change].append(key)
    for (name, before, after), keys in sorted(found.items(), key=lambda pair: _order(pair[0])):
        where = f"{len(keys)} keys" if len(keys) > 1 else keys[0]
        yield Change(f"factor {name} of {where}", before or None, after or None)
    if only_one[True] or only_one[False]:
        texts = (", ".join(only_one[first]) or None for first in (True, False))
        yield Change("settings of Inductor that the keys of one run hold", *texts)


def _order(change: tuple[str, str, str]) -> tuple[bool, bool, tuple[str, str, str]]:
    """Versions first, then what has a name of its own, then each setting of a configuration."""
    return not change[0].startswith(("torch", "triton", "vllm")), "[" in change[0], change


def _lookups(names: Names, run: Run) -> dict[str, Lookup]:
    return {
        f"{lookup_name(e.piece, e.range, e.process, names)} in the {e.layer} cache": e for e in run.lookups
    }


def _differing(
    a: dict[str, tuple[str, str]], b: dict[str, tuple[str, str]]
) -> Iterator[tuple[str, str, str]]:
    if not a or not b:
        return
    for name in {**a, **b}:
        (hash_a, text_a), (hash_b, text_b) = a.get(name, ("", "")), b.get(name, ("", ""))
        if hash_a == hash_b:
            continue
        digests = _DIGEST.fullmatch(text_a) and _DIGEST.fullmatch(text_b)
        if digests or _UNREADABLE in text_a + text_b or name.partition("[")[0] in _FOLLOWS:
            yield name.partition("[")[0], "", "another"
        else:
            yield name, _short(text_a), _short(text_b) if _short(text_a) != _short(text_b) else "another"


def _factors(run: Run, lookup: Lookup) -> dict[str, tuple[str, str]]:
    """Name -> what tells two apart, and a text to show. torch's lines carry a hash of their own."""
    text = run.log.text(lookup.factors) or ""
    heads = list(_TORCHS.finditer(text))
    if not heads:
        return {m[1]: (m[2], m[2]) for m in _PLAIN.finditer(text)}
    ends = [*(head.start() for head in heads[1:]), len(text)]
    return {head[2]: (head[1], text[head.end() : end]) for head, end in zip(heads, ends, strict=True)}


def _short(text: str) -> str:
    flat = plain("".join(c if c.isprintable() else " " for c in text))
    return f"{flat[:_SHOWN]}…" if len(flat) > _SHOWN else flat
