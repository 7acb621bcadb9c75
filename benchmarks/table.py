"""Prints measurements as a table, with what they were measured on."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from importlib import metadata


def show(title: str, head: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """One Markdown table on stdout."""
    print(f"\n### {title}\n\n{machine()}\n")
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(str(cell) for cell in row) + " |")


def machine() -> str:
    try:
        torch = metadata.version("torch")
    except metadata.PackageNotFoundError:
        torch = "none"
    return f"torch {torch}, Python {platform.python_version()}, {os.cpu_count()} cores, {platform.machine()}"
