"""Packages as pip would leave them: a `*.dist-info` with entry points, in a folder on the path."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def install(folder: Path, name: str, entry_points: dict[str, dict[str, str]], **modules: str) -> Path:
    """A package with these entry points and one-file modules; the folder to put on the path."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    groups = (
        f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in entries.items())
        for group, entries in entry_points.items()
    )
    (info / "entry_points.txt").write_text("\n".join(groups))
    for module, source in modules.items():
        (folder / f"{module}.py").write_text(source)
    return folder


def own_pytest_plugin(folder: Path) -> Path:
    """The plugin as `pyproject.toml` declares it, whether or not this checkout was installed since."""
    project = tomllib.loads(PROJECT.read_text())["project"]
    return install(folder, "compdbg-here", {"pytest11": project["entry-points"]["pytest11"]})


def on_path(*folders: Path) -> dict[str, str]:
    """The environment of a process that finds these folders' packages."""
    more = [os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else []
    return {**os.environ, "PYTHONPATH": os.pathsep.join([*map(str, folders), *more])}
