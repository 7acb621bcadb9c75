"""The JSON answer of every reading command: one object, the contract's keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from compdbg.model.summary import Summary

SCHEMA = 1


def answer(run: Summary | None, items: Sequence[Any], **more: Summary) -> str:
    """`{"schema": 1, "run": ..., "items": [...]}` on one line; `more` are further runs."""
    answered = {"schema": SCHEMA, "run": run, **more, "items": list(items)}
    return msgspec.json.encode(answered, enc_hook=str).decode()


def failure(code: str, message: str, **more: str) -> str:
    error = {"code": code, "message": message, **more}
    return msgspec.json.encode({"schema": SCHEMA, "error": error}).decode()
