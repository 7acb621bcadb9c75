"""The page of each finding code, readable offline: `docs/findings/` travels in the package."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path


def _folder() -> Path:
    """The installed copy of the pages, or the checkout's own."""
    installed = Path(str(resources.files("compdbg"))) / "docs" / "findings"
    return installed if installed.is_dir() else Path(__file__).parents[2] / "docs" / "findings"


def page(code: str) -> str:
    """The page's Markdown.

    Raises:
        KeyError: there is no such code.
    """
    if code not in CODES:
        raise KeyError(code)
    return (_folder() / f"{code}.md").read_text()


def index() -> str:
    """Every code with what it says, a line each."""
    rows = re.findall(
        r"^\| \[([\w-]+)\]\(.*?\) \| (.*) \|$", (_folder() / "index.md").read_text(), re.MULTILINE
    )
    return "".join(f"{code:<24} {says}\n" for code, says in rows)


CODES: tuple[str, ...] = tuple(sorted(path.stem for path in _folder().glob("*.md") if path.stem != "index"))
"""The codes that have a page: every code that a rule of this version can give."""
