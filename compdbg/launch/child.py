"""What runs first in a recorded process: reads the environment and starts the session."""

from __future__ import annotations

import atexit
import os
from pathlib import Path

RUN = "COMPDBG_RUN"
OPTIONS = "COMPDBG_OPTIONS"


def start_from_environment() -> None:
    """Start recording where `COMPDBG_RUN` names a folder; nothing otherwise. Never raises."""
    folder = os.environ.get(RUN)
    if not folder:
        return
    try:
        _start(Path(folder))
    except Exception as error:
        import sys

        print(f"compdbg: not recording this process: {error}", file=sys.stderr)


def _start(folder: Path) -> None:
    from compdbg.record import options
    from compdbg.record.session import Session, options_from_json

    chosen = options_from_json(os.environ.get(OPTIONS, ""))
    options.set_current(chosen)
    folder.mkdir(parents=True, exist_ok=True)
    session = Session(folder, chosen, how="run")
    session.start()
    atexit.register(session.close)
    os.register_at_fork(after_in_child=session.after_fork)
