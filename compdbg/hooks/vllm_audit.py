"""Dropped guards where torch checks none: vLLM's swapped bytecode, and AOT artifacts loaded from disk."""

from __future__ import annotations

from typing import Any

from compdbg import probe
from compdbg.events import Guards
from compdbg.hooks import current

LOADED = "loaded"
"""Stands for the compile id of a function that was not compiled in this run."""


def record_loaded(loaded: Any) -> None:
    """A function from vLLM's AOT cache runs with guards dropped, unknown which."""
    code = loaded._artifacts.original_code
    probe.emit(
        Guards(
            frame=current.frame_key(code),
            compile_id=LOADED,
            guards=[],
            drop_requested=True,
            audit="not-audited",
            audit_reason="loaded from vLLM's AOT cache, which does not keep the guards that were dropped",
        )
    )
