"""Why vLLM finds no artifact of a model that it has compiled before."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture(scope="module")
def copy(engine, tmp_path_factory):
    """The program in a folder of its own, compiled once."""
    folder = tmp_path_factory.mktemp("programs")
    for name in ("engine.py", "guard.py"):
        shutil.copy(PROGRAMS / name, folder)
    engine.recorded(folder / "guard.py", "inductor", cache="keys")
    return folder / "guard.py"


def vllms_lookup(engine, recorded):
    (row,) = [r for r in engine.show(recorded, "cache") if r["layer"] == "vllm"]
    return row


def test_a_setting_that_changed_is_named(engine, copy):
    recorded = engine.recorded(copy, "inductor", "4", cache="keys")
    row = vllms_lookup(engine, recorded)
    assert row["result"] == "miss"
    changed = {c["name"]: (c["before"], c["after"]) for c in row["changed_factors"]}
    assert changed["compile_sizes"] == ("[]", "[4]")
    assert set(changed) == {"compile_sizes", "the whole configuration"}
    (finding,) = recorded.found("cache-miss")
    assert finding.severity == "info"
    assert "compile_sizes: [] before, [4] now" in finding.cause


def test_source_that_changed_is_named(engine, copy):
    """Under the same key: vLLM compares the sources only after it has loaded the artifact."""
    copy.write_text(copy.read_text().replace("self.linear(x) * 2", "self.linear(x) * 3"))
    row = vllms_lookup(engine, engine.recorded(copy, "inductor", cache="keys"))
    assert (row["result"], row["reason"]) == ("miss", "source changed since it was made: guard.py")


def test_lines_above_the_class_are_part_of_the_key(engine, copy):
    copy.write_text("# one more line\n" + copy.read_text())
    row = vllms_lookup(engine, engine.recorded(copy, "inductor", cache="keys"))
    assert row["result"] == "miss"
    assert [(c["name"], c["before"], c["after"]) for c in row["changed_factors"]] == [
        ("first line", "18", "19")
    ]
