"""Checks that a run was asked for, and what they came to: one that compared nothing vouches for nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from compdbg.events import Compared, Decorated, OpsChecked, PatternPass, ReplacementsChecked, TorchLoaded
from compdbg.model.caches import Lookup
from compdbg.store.reader import Log

OURS, VLLM = "COMPDBG_DISABLE_COMPILE_CACHE=1", "VLLM_DISABLE_COMPILE_CACHE=1"
TORCH = "TORCHINDUCTOR_FORCE_DISABLE_CACHES=1"


class Asked(Struct, frozen=True, kw_only=True):
    """One check. `why` nothing was compared, or not all, and what to `do` about it."""

    option: str
    compared: int
    what: str
    """What is counted: one of it."""
    of: str = ""
    why: str = ""
    do: str = ""


def build_asked(log: Log, lookups: Sequence[Lookup]) -> list[Asked]:
    options = log.manifest.get("options") or {}
    return list(_asked(log, lookups, options if isinstance(options, dict) else {}))


def _asked(log: Log, lookups: Sequence[Lookup], options: dict[str, object]) -> Iterator[Asked]:
    if options.get("check_replacements"):
        yield _replacements(log, lookups)
    if options.get("check_ops"):
        checked = sum(n for _, event in log.of(OpsChecked) for n in event.checked.values())
        yield Asked(
            option="--check-ops",
            compared=checked,
            what="call",
            of=" of custom operators",
            why="" if checked else "no custom operator was called",
        )
    if options.get("compare"):
        yield _compared(log)


def _replacements(log: Log, lookups: Sequence[Lookup]) -> Asked:
    """Values that were compared; nothing is replaced in a compile that a cache serves."""
    compared = sum(event.values_compared for _, event in log.of(ReplacementsChecked))
    served = any(each.result == "hit" and each.layer != "twin" for each in lookups)
    if served:
        why = "not those that a cache served" if compared else "nothing is replaced where a cache serves"
    elif any(event.compared for _, event in log.of(ReplacementsChecked)):
        why = "none of the replacements could be run on random inputs"
    elif log.of(PatternPass):
        why = "no pattern matched"
    else:
        why = "no pass that replaces anything ran"
    return Asked(
        option="--check-replacements",
        compared=compared,
        what="replacement",
        why=why if served or not compared else "",
        do=f"compile anew with {_switches(log)}" if served else "",
    )


def _switches(log: Log) -> str:
    """What keeps the caches of this run from being read. Another folder does not: torch has its own."""
    if not log.of(Decorated):
        return TORCH
    return f"{VLLM} {TORCH}" if any(event.vllm for _, event in log.of(TorchLoaded)) else OURS


def _compared(log: Log) -> Asked:
    events = [event for _, event in log.of(Compared)]
    compared = sum(event.check != "not-checked" for event in events)
    why = next((event.reason for event in events if event.reason), "no compiled graph was called")
    return Asked(
        option="--compare eager",
        compared=compared,
        what="call",
        of=" of compiled graphs",
        why="" if compared else why,
    )
