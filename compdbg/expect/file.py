"""Reads a file of expectations. What it does not know is an error: a gate that is misspelt is none."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from compdbg.expect.expectations import Allowed, Bound, Expectation, Expectations
from compdbg.findings.collect import known_codes

SEVERITIES = ("error", "warning", "info")
_FINGERPRINT = r"[0-9a-f]{12}"
_COUNTS: dict[str, dict[str, str]] = {
    "compile": {
        "graph_breaks": "exactly",
        "max_recompiles": "most",
        "max_pieces": "most",
        "unique_pieces": "exactly",
    },
    "guards": {"violations": "exactly"},
    "sizes": {"captured": "exactly", "uncaptured_calls": "exactly"},
}
_FUSION = {"matched": "exactly", "min": "least", "max": "most"}
_SECTIONS = ("fusion", *_COUNTS, "findings")
_FINDINGS = ("deny", "allow")


class WrongExpectation(Exception):
    """The file says something that can't be expected; the message is for the user."""


class NoExpectations(Exception):
    """The file can't be read, or is no TOML; the message is for the user."""


def read_expectations(path: Path) -> Expectations:
    """What a file expects.

    Raises:
        NoExpectations: there is no such file, or it is no TOML.
        WrongExpectation: it has an unknown key, a value of the wrong type, or nothing at all.
    """
    try:
        given = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise NoExpectations(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise NoExpectations(f"{path} is no TOML: {error}") from None
    try:
        return from_tables(given)
    except WrongExpectation as error:
        raise WrongExpectation(f"{path}: {error}") from None


def from_tables(given: dict[str, Any]) -> Expectations:
    """What the tables of such a file expect.

    Raises:
        WrongExpectation: as above.
    """
    for section, table in given.items():
        _known(section, _SECTIONS, f"[{section}]")
        _table(table, f"[{section}]")
    counts = [e for name, table in given.get("fusion", {}).items() for e in _fusion(name, table)]
    for section, keys in _COUNTS.items():
        for key, value in given.get(section, {}).items():
            name = f"{section}.{key}"
            _known(key, keys, name)
            counts.append(Expectation(area=name, bound=_bound(name, keys[key], value)))
    deny, allow = _findings(given.get("findings", {}))
    if not counts and not deny:
        raise WrongExpectation("nothing is expected: neither a count nor [findings] deny")
    return Expectations(counts=counts, deny=deny, allow=allow)


def _bound(name: str, kind: str, value: Any) -> Bound:
    if name == "sizes.captured":
        return Bound(exactly=_sizes(value, name))
    return Bound(**{kind: _count(value, name)})


def _fusion(name: str, table: Any) -> Iterable[Expectation]:
    where = f"[fusion.{name}]"
    bounds = {}
    for key, value in _table(table, where).items():
        _known(key, _FUSION, f"fusion.{name}.{key}")
        bounds[_FUSION[key]] = _count(value, f"fusion.{name}.{key}")
    if not bounds:
        raise WrongExpectation(f"{where} is empty; it wants `matched`, or `min`, `max` or both")
    if "exactly" in bounds and len(bounds) > 1:
        raise WrongExpectation(f"{where} has both `matched` and a bound; one of the two says it all")
    if bounds.get("least", 0) > bounds.get("most", float("inf")):
        raise WrongExpectation(f"{where} has `min` above `max`")
    yield Expectation(area="fusion", subject=name, bound=Bound(**bounds))


def _findings(table: dict[str, Any]) -> tuple[list[str], list[Allowed]]:
    for key in table:
        _known(key, _FINDINGS, f"findings.{key}")
    deny = table.get("deny", [])
    if not isinstance(deny, list) or not all(isinstance(entry, str) for entry in deny):
        raise WrongExpectation("findings.deny wants a list of finding codes")
    for entry in deny:
        if entry not in SEVERITIES and not re.fullmatch(_FINGERPRINT, entry):
            _known(entry, known_codes(), f"findings.deny: {entry!r}", "finding code")
    allow = table.get("allow", [])
    if not isinstance(allow, list):
        raise WrongExpectation("findings.allow wants a list of tables { code, fingerprint, reason }")
    return deny, [_allowed(entry) for entry in allow]


def _allowed(entry: Any) -> Allowed:
    table = _table(entry, "an entry of findings.allow")
    for key, value in table.items():
        _known(key, Allowed.__struct_fields__, f"findings.allow: {key}")
        if not isinstance(value, str):
            raise WrongExpectation(f"findings.allow: {key} wants a text, not {value!r}")
    if not table.get("code") and not table.get("fingerprint"):
        raise WrongExpectation("an entry of findings.allow has neither `code` nor `fingerprint`")
    if "code" in table:
        _known(table["code"], known_codes(), f"findings.allow: {table['code']!r}", "finding code")
    return Allowed(**table)


def _known(word: str, known: Iterable[str], what: str, kind: str = "key") -> None:
    choices = list(known)
    if word in choices:
        return
    near = difflib.get_close_matches(word, choices, 1)
    hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(choices)}"
    raise WrongExpectation(f"{what} is no known {kind}; {hint}")


def _table(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise WrongExpectation(f"{what} wants a table, not {value!r}")
    return value


def _count(value: Any, what: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise WrongExpectation(f"{what} wants a whole number from 0 on, not {value!r}")
    return value


def _sizes(value: Any, what: str) -> list[int]:
    if not isinstance(value, list):
        raise WrongExpectation(f"{what} wants a list of sizes, not {value!r}")
    return sorted({_count(size, what) for size in value})
