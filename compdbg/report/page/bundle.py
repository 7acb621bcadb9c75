"""The page's scripts and style as one text each, with the hashes that its policy allows.

Scripts are plain ES modules in `assets/`, tested one by one. Here each becomes a function that
returns what it exports, after those that it imports: nothing is rewritten but import and export
lines, so that there is no build to keep up to date.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from importlib import resources

_IMPORT = re.compile(r'^import (?P<names>\{[^}]*\}) from "\./(?P<module>[\w-]+\.js)";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const|class) (?P<name>\w+))", re.MULTILINE)
ENTRY = "main.js"


@functools.cache
def script() -> str:
    """All modules in one."""
    ordered: dict[str, str] = {}
    _add(ENTRY, ordered)
    return "const modules = {};\n" + "\n".join(ordered.values())


@functools.cache
def style() -> str:
    return _asset("report.css")


def policy() -> str:
    """Nothing may be loaded from anywhere; only our own script and style may run."""
    parts = (
        "default-src 'none'",
        f"script-src '{_hash(script())}'",
        f"style-src '{_hash(style())}'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
    return "; ".join(parts)


def _add(name: str, ordered: dict[str, str]) -> None:
    """Put in what a module imports, then the module itself."""
    if name in ordered:
        return
    text = _asset(name)
    for found in _IMPORT.finditer(text):
        _add(found["module"], ordered)
    exported = ", ".join(found["name"] for found in _EXPORT.finditer(text))
    body = _EXPORT.sub("", _IMPORT.sub(r'const \g<names> = modules["\g<module>"];', text)).strip()
    ordered[name] = f'modules["{name}"] = (() => {{\n{body}\nreturn {{ {exported} }};\n}})();'


def _asset(name: str) -> str:
    return resources.files("compdbg.report").joinpath("assets", name).read_text("utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
