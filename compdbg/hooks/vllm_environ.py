"""vLLM refuses variables that begin with `VLLM_` and are not its own; ours is none of its business.

It is not declared to vLLM as one of its own, for those are part of the keys of its caches.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from compdbg.hooks.base import Patches
from compdbg.hooks.vllm_targets import VALIDATE_ENVIRON

OURS = "VLLM_COMPDBG_RUN"


def install(patches: Patches) -> None:
    patches.wrap(VALIDATE_ENVIRON, _without_ours)


def _without_ours(original: Callable[..., Any]) -> Callable[..., Any]:
    def validate_environ(cls: Any, *args: Any, **kwargs: Any) -> Any:
        value = os.environ.pop(OURS, None)
        try:
            return original(cls, *args, **kwargs)
        finally:
            if value is not None:
                os.environ[OURS] = value

    return validate_environ
