"""Every program of the shared cases gives exactly what `expect.toml` says of it."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from importlib.metadata import version
from pathlib import PurePath
from typing import Any

import pytest

from compdbg.findings.base import Finding
from tests.conftest import CASES, Recorded

pytestmark = pytest.mark.torch

EXPECTED: dict[str, Any] = (
    tomllib.loads((CASES / "expect.toml").read_text()) if (CASES / "expect.toml").exists() else {}
)
NOT_GUARDED = (
    {"guard_behind_a_harmless_one": "this torch puts no guard on a class's attribute: nothing is dropped"}
    if version("torch") < "2.13"
    else {}
)


@pytest.mark.skipif(not EXPECTED, reason="the shared cases are not here")
@pytest.mark.parametrize("name", EXPECTED)
def test_case_is_explained(name: str, run_recorded: Callable[..., Recorded]) -> None:
    if name in NOT_GUARDED:
        pytest.skip(NOT_GUARDED[name])
    expected = EXPECTED[name]
    recorded = run_recorded(CASES / f"{name}.py")
    assert recorded.process.returncode == 0, recorded.process.stderr
    findings = recorded.findings
    unexplained = [f for f in findings if f.severity != "info"]
    for wanted in expected.get("findings", []):
        match = next((f for f in findings if _fits(f, wanted)), None)
        assert match is not None, f"{wanted} is not among {findings}"
        unexplained = [f for f in unexplained if f is not match]
    assert not unexplained, f"beyond what the case expects: {unexplained}"
    for pass_name, wanted in expected.get("fusion", {}).items():
        _check_fusion(recorded, pass_name, wanted)


def _fits(finding: Finding, wanted: dict[str, Any]) -> bool:
    if finding.code != wanted["code"]:
        return False
    if "severity" in wanted and finding.severity != wanted["severity"]:
        return False
    if "where" in wanted:
        where = finding.where
        if where is None or f"{PurePath(where.file).name}:{where.line}" != wanted["where"]:
            return False
    return all(finding.data.get(key) == value for key, value in wanted.get("data", {}).items())


def _check_fusion(recorded: Recorded, pass_name: str, wanted: dict[str, Any]) -> None:
    rows = [r for r in recorded.run.fusion if pass_name in (r.pass_, *r.pass_aliases)]
    assert wanted["outcome"] in {r.outcome for r in rows}, rows
    if "matched" in wanted:
        assert sum(r.matched for r in rows) == wanted["matched"], rows
    if "reason" in wanted:
        assert wanted["reason"] in {r.near_miss.reason for r in rows if r.near_miss}, rows
