"""What is never recorded: environment values outside a list, and values of secret options."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

_SHOWN = re.compile(r"^(TORCH|PYTORCH|TRITON|VLLM|COMPDBG|CUDA|NCCL|OMP|RANK$|LOCAL_RANK$|WORLD_SIZE$)")
_SECRET = re.compile(r"(KEY|TOKEN|PASSWORD|SECRET|CREDENTIAL)", re.IGNORECASE)
_SECRET_OPTION = re.compile(r"^--?[\w-]*(key|token|password|secret)$", re.IGNORECASE)
_SECRET_ASSIGNED = re.compile(r"^(--?[\w-]*(?:key|token|password|secret))=", re.IGNORECASE)
HIDDEN = "<hidden>"


def safe_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that steer torch, Triton, vLLM and us; none that name a secret."""
    return {
        name: value for name, value in environment.items() if _SHOWN.match(name) and not _SECRET.search(name)
    }


def safe_argv(argv: Sequence[str]) -> list[str]:
    """`argv` with the values after `--*key`, `--*token`, `--*password` hidden."""
    safe: list[str] = []
    hide_next = False
    for word in argv:
        if hide_next:
            safe.append(HIDDEN)
            hide_next = False
            continue
        assigned = _SECRET_ASSIGNED.match(word)
        safe.append(f"{assigned[1]}={HIDDEN}" if assigned else word)
        hide_next = bool(_SECRET_OPTION.match(word))
    return safe
