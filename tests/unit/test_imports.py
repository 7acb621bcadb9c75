"""What is loaded when: the fast paths load neither torch nor Textual, in real processes."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = ("torch", "textual", "rich", "msgspec", "depyf", "numpy")


def loaded_by(code: str) -> set[str]:
    """Which heavy packages a fresh interpreter has loaded after `code`."""
    script = f"{code}\nimport sys, json\nprint(json.dumps([m for m in {HEAVY!r} if m in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_import_compdbg_loads_nothing_heavy() -> None:
    assert loaded_by("import compdbg") == set()


def test_help_loads_nothing_heavy() -> None:
    code = "from compdbg.cli.main import main\ntry: main(['--help'])\nexcept SystemExit: pass"
    assert loaded_by(code) <= {"msgspec"}


@pytest.mark.parametrize("view", ["summary", "findings", "events", "health"])
def test_reading_a_run_loads_neither_torch_nor_textual(view: str, tmp_path: object) -> None:
    code = (
        "import contextlib, io\n"
        "from compdbg.record.manifest import Manifest\n"
        f"folder = {str(tmp_path)!r}\n"
        "Manifest(folder, ['x.py'], {}).write()\n"
        "from compdbg.cli.main import main\n"
        f"assert main(['show', folder + '/', {view!r}]) == 0\n"
    )
    assert loaded_by(code) <= {"msgspec"}


def test_the_public_names_are_what_is_exported() -> None:
    import compdbg

    assert set(compdbg.__all__) == {"__version__", "load", "record"}
    for name in compdbg.__all__:
        assert getattr(compdbg, name)
    with pytest.raises(AttributeError, match="no attribute 'recrod'"):
        compdbg.recrod  # noqa: B018


def test_a_hook_is_loaded_by_the_modules_that_it_patches() -> None:
    from compdbg.hooks.installed import MODULES, WAITS_FOR, load_hook

    patched = {name: tuple(dict.fromkeys(part.module for part in load_hook(name).parts)) for name in MODULES}
    assert patched == WAITS_FOR
