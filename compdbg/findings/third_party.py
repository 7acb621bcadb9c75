"""Rules of other packages, by entry points `compdbg.rules`; one that fails is told, and stops nothing.

The name of the entry point is the code of the findings that its rule gives.
"""

from __future__ import annotations

import importlib.metadata
import inspect
import sys
from collections.abc import Iterator

from compdbg.findings.base import Finding
from compdbg.model.run import Run

GROUP = "compdbg.rules"
_SEVERITIES = ("error", "warning", "info")


def third_party_codes() -> list[str]:
    """The codes that rules of other packages give."""
    return sorted(entry.name for entry in importlib.metadata.entry_points(group=GROUP))


def third_party_page(code: str) -> str:
    """What a rule of another package says of its code: its docstring, or its module's."""
    (entry,) = importlib.metadata.entry_points(group=GROUP, name=code)
    try:
        rule = entry.load()
        told = inspect.getdoc(rule) or inspect.getdoc(sys.modules[rule.__module__])
    except Exception as error:
        told = f"{entry.value} can't be loaded: {type(error).__name__}: {error}"
    return f"# {code}\n\n{told or 'Its rule has no docstring.'}\n"


def third_party_findings(run: Run) -> Iterator[Finding]:
    """What the rules of other packages find, and a finding for each of them that failed."""
    for entry in importlib.metadata.entry_points(group=GROUP):
        try:
            found = list(entry.load()(run))
            for finding in found:
                _check(finding)
        except Exception as error:
            yield _failed(entry, error)
        else:
            yield from found


def _check(finding: object) -> None:
    if not isinstance(finding, Finding):
        raise TypeError(f"gave a {type(finding).__name__}, not a Finding")
    if finding.severity not in _SEVERITIES:
        raise ValueError(f"gave severity {finding.severity!r}, not one of {', '.join(_SEVERITIES)}")


def _failed(entry: importlib.metadata.EntryPoint, error: Exception) -> Finding:
    package = entry.dist.name if entry.dist is not None else entry.value
    return Finding(
        code="recorder-degraded",
        severity="warning",
        title=f"the rule {entry.name!r} of {package} failed: what it looks for may be missing here",
        cause=f"{entry.value} raised {type(error).__name__}: {error}. Other findings are not affected.",
        suggestion=f"Upgrade or uninstall {package}, or report it to its authors.",
        data={"kind": "rule", "rule": entry.name, "package": package},
        subject=f"rule {entry.name}",
    )
