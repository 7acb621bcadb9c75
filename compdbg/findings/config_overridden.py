"""`config-overridden`: a value that the user set is not in effect."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator

from compdbg.events import CompileRequest, CudagraphSkip, TorchLoaded
from compdbg.findings.base import Cost, Finding
from compdbg.findings.words import at, counted, listed, sentence
from compdbg.model.passes import Pass
from compdbg.model.pipeline import Setting
from compdbg.model.run import Run

CUT = 400
"""Longer values are recorded cut off: what is missing there may be all that was asked for."""


def config_overridden(run: Run) -> Iterator[Finding]:
    """One finding for who changed values and why: a mode that takes three settings away is one cause."""
    overridden = {s.key: s for s in run.settings if is_overridden(s)}
    groups: dict[tuple[str, str], list[Setting]] = defaultdict(list)
    for setting in overridden.values():
        root = overridden.get(setting.why.partition(" is ")[0], setting)
        group = groups[root.changed_by, root.why]
        group.insert(0 if root is setting else len(group), setting)
    for found in groups.values():
        yield _finding(found)
    yield from _without_cuda_graphs(run)
    yield from _without_passes(run)


def is_overridden(setting: Setting) -> bool:
    """Whether what the user set is not in effect; a list or dict that is added to, or sorted, still is."""
    if not setting.asked or not setting.changed_by or setting.requested in (None, setting.effective):
        return False
    wanted, given = _literal(setting.requested), _literal(setting.effective)
    if len(setting.effective) >= CUT:
        return False
    if isinstance(wanted, dict):
        return not _holds(wanted, setting.effective)
    if isinstance(wanted, list) and isinstance(given, list):
        items = set(map(repr, wanted))
        return not (items <= set(map(repr, given)) or "'cudagraph_capture_sizes'" in items)
    return True


def _literal(text: str | None) -> object:
    """The value that a text is; None for what is not plain."""
    try:
        value: object = ast.literal_eval(text or "")
    except (ValueError, SyntaxError, TypeError):
        return None
    return value


def _holds(wanted: dict[object, object], effective: str) -> bool:
    """Whether a dict's items are all in another's text, whose other values may be objects."""
    return all(f"{key!r}: {value!r}" in effective for key, value in wanted.items())


def _finding(found: list[Setting]) -> Finding:
    first = found[0]
    where = next((s.where for s in found if s.where is not None), None)
    said = listed([f"{s.key} is {_short(s.effective)}, not {_short(s.requested or '')}" for s in found], 3)
    it, be = ("it", "is") if len(found) == 1 else ("them", "are")
    set_at = f" as {at(where)} set {it}" if where is not None else " what was asked for"
    return Finding(
        code="config-overridden",
        severity="warning",
        title=f"{said}: {_reason(first)}",
        cause=sentence(
            f"{listed([s.key for s in found])} {be} not{set_at} when the program compiles: "
            f"{first.changed_by} changed {it}" + (f"; {first.why}" if first.why else "")
        ),
        suggestion=_advice(first),
        where=where,
        evidence=[s.event for s in found],
        cost=Cost(results="same"),
        data={
            "keys": [s.key for s in found],
            "requested": {s.key: s.requested for s in found},
            "effective": {s.key: s.effective for s in found},
            "changed_by": first.changed_by,
            "why": first.why,
        },
        subject=f"{' '.join(sorted(s.key for s in found))}",
    )


def _reason(setting: Setting) -> str:
    """Who changed it; of the compiler itself, what made it do so."""
    by_rule = setting.changed_by == "the compiler" and setting.why
    return setting.why if by_rule else f"changed by {setting.changed_by}"


def _advice(setting: Setting) -> str:
    if setting.changed_by.startswith("the end of the patch"):
        return (
            "Keep the block open around the first call, or give the value to this compile: "
            "torch.compile(..., options={...}) holds for whenever it compiles."
        )
    if setting.why.startswith("the backend is "):
        return "Compile with Inductor (backend='inductor'), or leave the setting out."
    if setting.changed_by.startswith("the thread"):
        return "Set it on the thread that compiles, or give it to torch.compile as options={...}."
    if setting.changed_by.startswith("the environment variable"):
        return "Unset the variable where the program is started, or leave the setting out of the program."
    return (
        "Set it after that, or change what it depends on; `compdbg show config` has every value as asked "
        "for and as in effect."
    )


def _without_cuda_graphs(run: Run) -> Iterator[Finding]:
    """`reduce-overhead` where torch could not use CUDA graphs; on a machine without CUDA no one can."""
    if not any(event.device == "cuda" for _, event in run.log.of(TorchLoaded)):
        return
    skips: dict[str, list[tuple[str, CudagraphSkip]]] = defaultdict(list)
    for header, event in run.log.of(CudagraphSkip):
        skips[event.reason].append((header.id, event))
    modes = [e for _, e in run.log.of(CompileRequest) if e.mode in ("reduce-overhead", "max-autotune")]
    for reason, found in skips.items():
        graphs = list(dict.fromkeys(event.graph or "?" for _, event in found))
        where = next((e.where for _, e in found if e.where is not None), None)
        yield Finding(
            code="config-overridden",
            severity="warning",
            title=f"CUDA graphs are asked for and not used for {counted(len(graphs), 'graph')}: {reason}",
            cause=sentence(
                f"mode={modes[0].mode!r} asks for CUDA graphs"
                if modes
                else "The configuration asks for CUDA graphs"
            )
            + f" torch runs {listed(graphs)} without: {sentence(reason)}",
            suggestion="Take the reason away, or use the default mode, which does not pay for the attempt.",
            where=where or (modes[0].where if modes else None),
            evidence=[id for id, _ in found],
            cost=Cost(results="same"),
            data={
                "keys": ["triton.cudagraphs"],
                "requested": {"triton.cudagraphs": "True"},
                "effective": {"triton.cudagraphs": "False"},
                "changed_by": "torch",
                "why": reason,
            },
            subject=f"cudagraphs {reason}",
        )


def _without_passes(run: Run) -> Iterator[Finding]:
    """Passes of other packages that were asked for by name, failed, and are left out of what is compiled."""
    failed: dict[str, list[Pass]] = defaultdict(list)
    for one in run.passes:
        if one.error:
            failed[one.name].append(one)
    for name, runs in failed.items():
        why = (runs[0].error or "").partition("\n")[0]
        graphs = list(dict.fromkeys(one.graph for one in runs))
        yield Finding(
            code="config-overridden",
            severity="warning",
            title=f"the pass {name!r} failed and is left out of {counted(len(graphs), 'graph')}: {why}",
            cause=sentence(
                f"{name!r} is asked for by its package's entry point; it failed for {listed(graphs)}, which "
                f"{'is' if len(graphs) == 1 else 'are'} compiled as if it had not been: {why}"
            ),
            suggestion="Mend the pass, or leave it out of inductor_passes.",
            where=runs[0].where,
            evidence=[one.event for one in runs],
            cost=Cost(results="same"),
            data={
                "keys": ["inductor_passes"],
                "requested": {"inductor_passes": name},
                "effective": {"inductor_passes": ""},
                "changed_by": name,
                "why": why,
            },
            subject=f"pass {name}",
        )


def _short(value: str) -> str:
    return value if len(value) <= 40 else f"{value[:39]}…"
