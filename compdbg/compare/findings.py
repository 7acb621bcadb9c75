"""Findings of two runs side by side: the same ones by fingerprint, or, where lines moved, by subject."""

from __future__ import annotations

from collections.abc import Sequence

from compdbg.compare.names import Script, file_name
from compdbg.findings.base import Finding


def unmatched(
    findings: Sequence[Finding], others: Sequence[Finding], script: Script = ("", "")
) -> list[Finding]:
    """Those of `findings` that `others` have not, by fingerprint, place in the code or subject."""
    by_fingerprint = {f.fingerprint for f in others}
    by_subject = {_subject(f, script) for f in others}
    return [
        f for f in findings if f.fingerprint not in by_fingerprint and _subject(f, script) not in by_subject
    ]


def _subject(finding: Finding, script: Script) -> tuple[str, str, str, str]:
    """What a finding is about when lines are left out: an edit above it makes no new finding."""
    where = finding.where
    file, function = (file_name(where.file, script), where.function) if where is not None else ("", "")
    subject = finding.subject.replace(script[0], script[1]) if script[0] else finding.subject
    return finding.code, file, function, subject
