"""The checks of `compdbg doctor` as a table; the verdict in a sentence."""

from __future__ import annotations

from collections.abc import Sequence

from compdbg.doctor.environment import Check
from compdbg.views.base import Column, View
from compdbg.views.places import counted

_MARK = {"works": "ok", "degraded": "!!", "absent": "--", "unused": "  "}


def doctor(checks: Sequence[Check]) -> View:
    bad = sum(c.state in ("degraded", "absent") for c in checks)
    title = (
        f"{counted(bad, 'check')} of {len(checks)} failed" if bad else f"All {len(checks)} checks are fine"
    )
    return View(
        name="doctor",
        title=title,
        items=checks,
        columns=(
            Column("", lambda c: _MARK[c.state]),
            Column("check", lambda c: c.check),
            Column("state", lambda c: c.state),
            Column("detail", lambda c: c.detail, wide=True),
        ),
    )
