"""The verdicts of a check as GitHub-flavoured Markdown, for the summary of a CI job."""

from __future__ import annotations

from collections.abc import Sequence

from compdbg.expect.judge import Verdict
from compdbg.model.summary import Summary
from compdbg.report.text import clean
from compdbg.views.check import sentence, shown, title

_MARKS = {"pass": "✅", "fail": "❌", "not-observed": "⚠️"}
_SPECIAL = str.maketrans({c: f"\\{c}" for c in "\\`*_[]|#~"} | {"<": "&lt;", ">": "&gt;", "&": "&amp;"})


def render(run: Summary, verdicts: Sequence[Verdict], what: str) -> str:
    """A heading, a table of the verdicts, and beneath it each that does not hold, in words."""
    holds = all(v.status == "pass" for v in verdicts)
    out = [f"### {_MARKS['pass' if holds else 'fail']} compdbg: {text(title(verdicts, what))}", ""]
    out += ["| | expectation | wanted | found | finding |", "|---|---|---|---|---|"]
    out += [
        f"| {_MARKS[v.status]} | {text(v.expectation)} | {text(shown(v.wanted))} "
        f"| {text(shown(v.found))} | {v.finding or ''} |"
        for v in verdicts
    ]
    bad = [v for v in verdicts if v.status != "pass"]
    if bad:
        out += ["", *(f"- {text(sentence(v))}" for v in bad)]
    versions = {"torch": run.torch, "triton": run.triton, "vllm": run.vllm, "Python": run.python}
    told = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
    out += ["", f"{text(' '.join(run.argv))} · {text(told)}"]
    return "\n".join(out) + "\n"


def text(value: str) -> str:
    """Text from the program as one line in which nothing is markup."""
    return clean(value).translate(_SPECIAL)
