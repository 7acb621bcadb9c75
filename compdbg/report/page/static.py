"""The part of the page that reads without scripts: verdict, findings, what each section adds up to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any
from urllib.parse import quote

from compdbg.findings.base import Finding
from compdbg.report.contents import Contents
from compdbg.report.page.data import shown
from compdbg.views.all import VIEWS
from compdbg.views.base import Source
from compdbg.views.ending import failure, nothing_found
from compdbg.views.explanation import Explanation, explain
from compdbg.views.guard_text import in_python
from compdbg.views.sections import SECTIONS, Section, place_of, section_of
from compdbg.views.source_lines import lines_around
from compdbg.views.summary import facts, verdict

_MAX_LINES = 40
_SECTION_IDS = frozenset(section.id for section in SECTIONS)
_SEVERITIES = {"error": "Error", "warning": "Warning", "info": "Info"}


def text(value: str) -> str:
    """Text of the program as HTML text or a quoted attribute: never markup."""
    return escape(shown(value))


def body(contents: Contents) -> str:
    source = contents.source
    return "\n".join(
        [
            '<a class="skip" href="#findings">Skip to the findings</a>',
            _top(source),
            '<div class="page">',
            _navigation(source),
            '<main id="main">',
            _verdict(contents),
            _findings(source),
            *(_section(contents, section) for section in SECTIONS),
            _footer(contents),
            "</main>",
            "</div>",
        ]
    )


def program(source: Source) -> str:
    """The program's name for titles: its script or module, without folders."""
    words = [word for word in source.run.summary.argv if not word.startswith("-")] or ["a program"]
    return words[0].replace("\\", "/").rstrip("/").rpartition("/")[2] or words[0]


def _top(source: Source) -> str:
    return (
        '<header class="top"><div class="brand"><span class="mark" aria-hidden="true"></span>'
        f'<span class="name">compdbg</span> <span class="program">{text(program(source))}</span></div>'
        '<div class="tools" id="tools"></div></header>'
    )


def _navigation(source: Source) -> str:
    counts = {severity: sum(f.severity == severity for f in source.findings) for severity in _SEVERITIES}
    badges = "".join(
        f'<span class="badge {severity}">{count}<span class="sr"> {severity}</span></span>'
        for severity, count in counts.items()
        if count
    )
    links = ['<a href="#verdict">Verdict</a>', f'<a href="#findings">Findings{badges}</a>']
    links += [f'<a href="#{section.id}">{section.title}</a>' for section in SECTIONS]
    return f'<nav class="side" aria-label="Sections">{"".join(links)}</nav>'


def _verdict(contents: Contents) -> str:
    source = contents.source
    first, _, rest = verdict(source).partition(". Worst first: ")
    worst = _severity(source)
    sentence = f'<p class="worst">Worst first: <a href="#F1">{_marked(rest)}</a></p>' if rest else ""
    heading = text(first if first.endswith(".") else f"{first}.")
    rows = "".join(f"<div><dt>{text(k)}</dt><dd>{text(v)}</dd></div>" for k, v in facts(source))
    return (
        f'<section id="verdict" class="verdict {worst}" aria-labelledby="verdict-title">'
        f'<h1 id="verdict-title">{heading}</h1>{sentence}<dl class="facts">{rows}</dl></section>'
    )


def _severity(source: Source) -> str:
    """The colour of the verdict: that a program failed is bad, whatever was found."""
    if failure(source.run):
        return "error"
    return source.findings[0].severity if source.findings else "none"


def _findings(source: Source) -> str:
    articles = "\n".join(_finding(source, finding) for finding in source.findings)
    nothing = f'<p class="empty">{text(nothing_found(source.run))}</p>'
    return (
        '<section id="findings" aria-labelledby="findings-title"><h2 id="findings-title">Findings</h2>'
        f"{articles or nothing}</section>"
    )


def _finding(source: Source, finding: Finding) -> str:
    told = explain(source, finding)
    opened = "" if finding.severity == "info" else " open"
    place = f'<span class="where">{text(told.where)}</span>' if told.where else ""
    return (
        f'<article class="finding {finding.severity}" id="{finding.id}" aria-labelledby="{finding.id}-title">'
        f'<details{opened}><summary><span class="id">{finding.id}</span>'
        f'<span class="severity">{_SEVERITIES[finding.severity]}</span>'
        f'<h3 id="{finding.id}-title">{_marked(finding.title)}</h3>'
        f'<span class="meta"><span class="code">{text(finding.code)}</span>{place}</span></summary>'
        f'<div class="told">{_excerpt(source, finding)}{_answers(told)}{_actions(finding)}</div>'
        "</details></article>"
    )


def _excerpt(source: Source, finding: Finding) -> str:
    lines = lines_around(finding.where, 3, source.run.log.sources)
    if not lines or finding.where is None:
        return ""
    rows = "".join(
        f'<span class="row{" here" if n == finding.where.line else ""}">'
        f'<span class="number">{n}</span><code>{text(line) or " "}</code></span>'
        for n, line in _outdented(lines)
    )
    return f'<pre class="source" data-language="python" tabindex="0" aria-label="Source">{rows}</pre>'


def _outdented(lines: Sequence[tuple[int, str]]) -> Iterable[tuple[int, str]]:
    margin = min((len(line) - len(line.lstrip()) for _, line in lines if line.strip()), default=0)
    return ((number, line[margin:]) for number, line in lines)


def _answers(told: Explanation) -> str:
    finding = told.finding
    rows = [("Cause", _paragraphs(finding.cause)), ("Cost", text(told.cost))]
    rows += [("What to do", _paragraphs(finding.suggestion)), ("Evidence", _evidence(told))]
    return "<dl>" + "".join(f"<dt>{k}</dt><dd>{v}</dd>" for k, v in rows if v) + "</dl>"


def _paragraphs(value: str) -> str:
    return "".join(f"<p>{_marked(line)}</p>" for line in value.splitlines() if line.strip())


def _marked(line: str) -> str:
    """A line in which what stands in backquotes is code."""
    parts = line.split("`")
    if len(parts) % 2 == 0:
        return text(line)
    return "".join(f"<code>{text(p)}</code>" if n % 2 else text(p) for n, p in enumerate(parts))


def _evidence(told: Explanation) -> str:
    items = []
    for line in told.evidence:
        id, _, rest = line.partition(" ")
        link = f'<a href="#{event_anchor(id)}">{text(id)}</a> {text(rest)}' if ":" in id else text(line)
        items.append(f"<li>{link}</li>")
    if not items:
        return ""
    return f'<ul class="evidence">{"".join(items)}</ul>'


def event_anchor(id: str) -> str:
    """The fragment that leads to an event."""
    return "event/" + quote(id, safe=":-.")


def _actions(finding: Finding) -> str:
    section = section_of(finding)
    return (
        '<p class="actions">'
        f'<a class="button" href="#{place_of(finding)}{_filter(finding)}">Show in {section.title}</a>'
        f'<span class="copy" data-copy="compdbg explain --code {text(finding.code)}">'
        f"<code>compdbg explain --code {text(finding.code)}</code></span>"
        f'<span class="fingerprint">fingerprint <code>{text(finding.fingerprint)}</code></span></p>'
    )


def _filter(finding: Finding) -> str:
    """What the table there is to be filtered by, where the finding names it."""
    of_guard = finding.code == "guard-dropped-violated"
    subject: Any = finding.data.get("expr" if of_guard else "pass")
    if not isinstance(subject, str) or not subject:
        return ""
    return f"/{quote(in_python(subject) if of_guard else subject, safe='')}"


def _section(contents: Contents, section: Section) -> str:
    parts = "".join(_view(contents, name, section) for name in section.views)
    return (
        f'<section id="{section.id}" class="area" aria-labelledby="{section.id}-title">'
        f'<h2 id="{section.id}-title">{section.title}</h2><p class="about">{section.about}</p>'
        f"{parts}</section>"
    )


def _view(contents: Contents, name: str, section: Section) -> str:
    """What a view adds up to; its rows are drawn by the script."""
    source = contents.source
    if name == "events":
        carried = contents.carried
        title, lines, empty, rows = "Events", list(carried.left_out), "", len(carried.records)
    else:
        view = VIEWS[name](source)
        title, lines, empty, rows = view.title, [*view.lines, *view.below], view.empty, len(view.items)
    if not rows and name in ("numerics", "memory"):
        return ""
    anchor = f' id="{name}"' if name not in _SECTION_IDS else ""
    titled = len(section.views) > 1 and title != section.title
    heading = f"<h3{anchor}>{text(title)}</h3>" if titled else ""
    said = "".join(f"<li>{_marked(line)}</li>" for line in lines[:_MAX_LINES])
    more = f"<li>and {len(lines) - _MAX_LINES} more</li>" if len(lines) > _MAX_LINES else ""
    words = f'<ul class="lines">{said}{more}</ul>' if said else ""
    if not rows:
        return f'{heading}{words}<p class="empty">{text(empty[:1].upper() + empty[1:])}.</p>'
    count = f"{rows:,} row{'s' * (rows != 1)}"
    return (
        f'{heading}{words}<div class="drawn" data-view="{name}">'
        f"<noscript><p>{count}, drawn with JavaScript; as text: <code>compdbg show {name}</code></p>"
        "</noscript></div>"
    )


def _footer(contents: Contents) -> str:
    from compdbg import __version__

    log = contents.carried
    parts = [f"<p>Made by compdbg {__version__} from the run <code>{text(log.folder.name)}</code>.</p>"]
    parts += [f"<p>{text(sentence)}</p>" for sentence in log.left_out]
    if contents.redactions is None:
        parts.append("<p>Nothing was redacted (<code>--no-redact</code>).</p>")
    elif contents.redactions:
        items = "".join(f"<li>{text(line)}</li>" for line in contents.redactions)
        parts.append(f'<p>Redacted before this was written:</p><ul class="redacted">{items}</ul>')
    else:
        parts.append("<p>There was nothing to redact.</p>")
    parts.append(
        "<p>The run itself is in this file: <code>compdbg explain FILE</code> and "
        "<code>compdbg show FILE guards</code> read it.</p>"
    )
    return f'<footer class="end" id="about"><h2>About this file</h2>{"".join(parts)}</footer>'
