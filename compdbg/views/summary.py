"""The first screen: the verdict in a sentence, the run in a few lines."""

from __future__ import annotations

from compdbg.views.asked import checks, in_vain
from compdbg.views.base import Source, View
from compdbg.views.ending import ended, failure, is_told
from compdbg.views.frames import frames
from compdbg.views.places import counted
from compdbg.views.served import padding_checked
from compdbg.views.sizes import leaks_by_size
from compdbg.views.splits import splits

MAX_FINDINGS = 8


def summary(source: Source) -> View:
    run = source.run.summary
    lines = [f"{label:<10}{value}" for label, value in facts(source)]
    if source.findings:
        lines += ["", *(f"{f.id:<4}{f.severity:<9}{f.title}" for f in source.findings[:MAX_FINDINGS])]
        lines += [f"    and {len(source.findings) - MAX_FINDINGS} more"] * (
            len(source.findings) > MAX_FINDINGS
        )
        lines += ["", "next: compdbg explain"]
    return View(name="summary", title=verdict(source), items=[run], lines=lines)


def facts(source: Source) -> list[tuple[str, str]]:
    """The run in a few pairs of a word and what is to be said of it."""
    return [
        ("program", " ".join(source.run.summary.argv)),
        ("ended", ended(source.run.summary)),
        ("versions", _versions(source)),
        *_areas(source),
    ]


def _versions(source: Source) -> str:
    run = source.run.summary
    versions = {"torch": run.torch, "triton": run.triton, "vllm": run.vllm, "Python": run.python}
    return ", ".join(f"{name} {version}" for name, version in versions.items() if version)


def _areas(source: Source) -> list[tuple[str, str]]:
    """What was compiled, fused and served, a pair an area that has anything."""
    run = source.run
    found = [("frames", "; ".join(frames(source).lines))] if run.frames.compiles else []
    if run.pieces:
        found.append(("split", "; ".join(splits(source).lines)))
    checked = padding_checked(run.sizes, leaks_by_size(source))
    if checked:
        found.append(("padding", checked.removeprefix("padding ")))
    found += [("checked", said) for said in checks(run)]
    if run.summary.cold is not None:
        found.append(("caches", "cold: compiled anew" if run.summary.cold else "warm: served from a cache"))
    if run.summary.processes > 1:
        ranks = f", ranks {', '.join(map(str, run.summary.ranks))}" if run.summary.ranks else ""
        found.append(("processes", f"{run.summary.processes}{ranks}"))
    return found


def verdict(source: Source) -> str:
    """One sentence: how many errors and warnings and the worst of them, and how the program failed."""
    failed = failure(source.run)
    severe = [f for f in source.findings if f.severity != "info"]
    if not severe:
        if failed:
            return f"{_begin(failed)}. No finding explains it."
        nothing = in_vain(source.run)
        return f"No fault was found in this run{f', but {nothing}' if nothing else ''}."
    errors = sum(f.severity == "error" for f in severe)
    warnings = len(severe) - errors
    parts = [counted(n, noun) for n, noun in ((errors, "error"), (warnings, "warning")) if n]
    told = f"{' and '.join(parts)}. Worst first: {severe[0].title}"
    return f"{_begin(failed)}. {told}" if failed and not is_told(source.run, severe) else told


def _begin(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]
