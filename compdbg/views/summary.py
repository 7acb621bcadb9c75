"""The first screen: the verdict in a sentence, the run in a few lines."""

from __future__ import annotations

from compdbg.views.base import Source, View
from compdbg.views.places import counted, duration


def summary(source: Source) -> View:
    run = source.run.summary
    lines = [
        f"program  {' '.join(run.argv)}",
        f"ended    {_end(source)}",
        f"versions torch {run.torch or '(not imported)'}, Python {run.python}",
    ]
    return View(name="summary", title=verdict(source), items=[run], lines=lines)


def verdict(source: Source) -> str:
    """One sentence: how many errors and warnings, and the worst of them."""
    severe = [f for f in source.findings if f.severity != "info"]
    if not severe:
        return "No fault was found in this run."
    errors = sum(f.severity == "error" for f in severe)
    warnings = len(severe) - errors
    parts = [counted(n, noun) for n, noun in ((errors, "error"), (warnings, "warning")) if n]
    return f"{' and '.join(parts)}. Worst first: {severe[0].title}"


def _end(source: Source) -> str:
    run = source.run.summary
    if not run.complete:
        return "still running, or the recorder was stopped"
    how = f"by signal {run.signal}" if run.signal else f"with exit status {run.exit_status}"
    return f"{how} after {duration(run.duration_s)}"
