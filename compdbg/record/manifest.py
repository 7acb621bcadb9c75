"""The run folder itself: its name, the pointer to the newest, and `run.json`."""

from __future__ import annotations

import datetime
import json
import secrets
import threading
from pathlib import Path
from typing import Any

import msgspec

from compdbg.record.options import Options


def new_run_folder(script: str, under: Path | None = None) -> Path:
    """A new folder `compdbg-runs/<script>-<date>-<time>-<id>`, and the pointer `latest` to it."""
    now = datetime.datetime.now()
    base = (under or Path.cwd()) / "compdbg-runs"
    name = f"{Path(script).stem or 'run'}-{now:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
    folder = base / name
    folder.mkdir(parents=True)
    latest = base / f".latest.{threading.get_ident()}"
    latest.unlink(missing_ok=True)
    latest.symlink_to(name, target_is_directory=True)
    latest.replace(base / "latest")
    return folder


def start_manifest(folder: Path, argv: list[str], options: Options) -> None:
    """Write `run.json`: what a run folder says of itself before any event is read."""
    from compdbg import __version__
    from compdbg.events import SCHEMA
    from compdbg.record.privacy import safe_argv

    manifest = {
        "schema": ".".join(map(str, SCHEMA)),
        "compdbg": __version__,
        "run": folder.name,
        "argv": safe_argv(argv),
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds"),
        "options": msgspec.to_builtins(options),
        "complete": False,
        "exit_status": None,
        "signal": None,
        "duration_s": None,
    }
    _write(folder, manifest)


def finish_manifest(folder: Path, *, exit_status: int | None, signal: int | None = None, **more: Any) -> None:
    """Complete `run.json` with how the program ended."""
    manifest = json.loads((folder / "run.json").read_text())
    started = datetime.datetime.fromisoformat(manifest["started"])
    elapsed = (datetime.datetime.now(datetime.UTC) - started).total_seconds()
    manifest |= {
        "complete": True,
        "exit_status": exit_status,
        "signal": signal,
        "duration_s": elapsed,
        **more,
    }
    _write(folder, manifest)


def _write(folder: Path, manifest: dict[str, Any]) -> None:
    partial = folder / ".run.json"
    partial.write_text(json.dumps(manifest, indent=2) + "\n")
    partial.replace(folder / "run.json")
