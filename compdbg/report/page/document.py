"""The whole page as one text: what it is, for whoever reads it as text; the policy; the page; the data."""

from __future__ import annotations

import textwrap
from typing import Any

from compdbg.report.contents import Contents
from compdbg.report.page.bundle import policy, script, style
from compdbg.report.page.data import page_data, shown
from compdbg.report.page.static import body, program, text
from compdbg.store.embedded import MARK, encode
from compdbg.store.packed import pack_events, pack_texts
from compdbg.views.explanation import explain
from compdbg.views.summary import facts, verdict

FORMAT = "1.0"
_TOLD = 6


def document(contents: Contents) -> str:
    """The page. It needs nothing but itself, and asks for nothing."""
    source = contents.source
    title = text(f"{program(source)}: {verdict(source)}")
    return "\n".join(
        [
            '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">',
            "<!--",
            *_in_words(contents),
            "-->",
            f'<meta http-equiv="Content-Security-Policy" content="{policy()}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            '<meta name="referrer" content="no-referrer">',
            f"<title>{title}</title>",
            f"<style>{style()}</style>",
            "</head>",
            "<body>",
            body(contents),
            *(_block(name, value) for name, value in _data(contents).items()),
            f'<script type="module">{script()}</script>',
            "</body></html>",
            "",
        ]
    )


def _in_words(contents: Contents) -> list[str]:
    """The first lines of the file: what it is, of which program, and the verdict."""
    source = contents.source
    lines = [
        f"{MARK} {FORMAT}: a recording of torch.compile at work. Open it in a browser (it needs no network),"
    ]
    lines += ["or read it with: compdbg explain THIS-FILE   (pip install compdbg)", ""]
    lines += [f"{label:<10}{value}" for label, value in facts(source)]
    lines += [
        "",
        *textwrap.wrap(f"verdict   {shown(verdict(source))}", 110, subsequent_indent=" " * 10)[:3],
        "",
    ]
    for finding in source.findings[:_TOLD]:
        lines.append(f"{finding.id:<4}{finding.severity:<9}{explain(source, finding).where}: {finding.title}")
    more = len(source.findings) - _TOLD
    lines += [f"    and {more} more"] if more > 0 else []
    return [_in_comment(line) for line in lines]


def _in_comment(line: str) -> str:
    """One line that can't end the comment that it stands in."""
    line = shown(line)
    return (line if len(line) <= 160 else f"{line[:159]}…").replace(">", "&gt;").replace("<", "&lt;").rstrip()


def _data(contents: Contents) -> dict[str, Any]:
    log = contents.carried
    return {
        "views": page_data(contents),
        "run": {"manifest": log.manifest, "sources": log.sources or {}, "left_out": list(log.left_out)},
        "texts": pack_texts(log.texts or {}),
        "events": pack_events(log.records),
    }


def _block(name: str, value: Any) -> str:
    return f'<script type="text/plain" id="compdbg-{name}">{encode(value)}</script>'
