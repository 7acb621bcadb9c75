"""The interpreter as keys need it: nothing else holds one up for long."""

from __future__ import annotations

import gc
import sys

SWITCH_S = 0.001
"""How long a thread that prepares a page goes on while a key waits."""
FULL = 1000
"""Collections of the middle generation to a full one: one looks through all of a run, 0.1 s and more."""


def answer_keys_first() -> None:
    sys.setswitchinterval(SWITCH_S)
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, FULL)
