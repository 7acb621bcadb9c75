"""The documentation is complete and its links lead somewhere."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pytest

from compdbg.cli.main import COMMANDS, parser
from compdbg.compiler.config import CompilationConfig
from compdbg.compiler.overrides import VARIABLES, all_keys
from compdbg.findings.pages import CODES, page
from compdbg.views.all import VIEWS

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])
RULES = sorted(
    path.stem.replace("_", "-")
    for path in (ROOT / "compdbg" / "findings").glob("*.py")
    if "yield Finding(" in path.read_text() or "return [Finding(" in path.read_text()
)


@pytest.mark.parametrize("path", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_relative_links_lead_somewhere(path: Path) -> None:
    links = re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", path.read_text())
    missing = [link for link in links if not (path.parent / link).exists()]
    assert not missing


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_a_page_that_names_its_options(command: str) -> None:
    text = (ROOT / "docs" / "commands" / f"{command}.md").read_text()
    commands = next(a for a in parser(command)._actions if isinstance(a, argparse._SubParsersAction))
    options = [o for action in commands.choices[command]._actions for o in action.option_strings]
    lacking = [o for o in options if o not in text and o not in ("-h", "--help")]
    assert not lacking


def test_each_view_is_named_on_the_page_of_show() -> None:
    text = (ROOT / "docs" / "commands" / "show.md").read_text()
    assert [view for view in VIEWS if f"`{view}`" not in text] == []


def test_each_key_and_variable_of_the_compiler_is_on_its_page() -> None:
    text = (ROOT / "docs" / "compiler.md").read_text()
    names = {key.removeprefix("pass_config.") for key in all_keys(CompilationConfig)}
    names |= {name for variable in VARIABLES for name in (variable.name, variable.seed)}
    structures = {"dynamic_shapes_config", "pass_config"}
    assert [name for name in sorted(names - structures) if name not in text] == []


def test_each_code_that_a_rule_gives_has_a_page() -> None:
    given = set()
    for path in (ROOT / "compdbg" / "findings").glob("*.py"):
        given |= set(re.findall(r'code="([a-z-]+)"', path.read_text()))
    assert sorted(given - set(CODES)) == []


@pytest.mark.parametrize("code", CODES)
def test_a_page_says_what_it_means_and_what_to_do(code: str) -> None:
    text = page(code)
    assert text.startswith(f"# {code}\n")
    assert "## What to do" in text


def test_the_index_of_findings_lists_every_page() -> None:
    index = (ROOT / "docs" / "findings" / "index.md").read_text()
    assert [code for code in CODES if f"({code}.md)" not in index] == []
