"""Has every fusion of the built-in compiler proved in a process of its own, and says what came of it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator

from compdbg.doctor.environment import Check

PROOF = "compdbg.compiler.passes.fusion.proof"
TIMEOUT_S = 600


def fusions() -> Iterator[Check]:
    """One check a pass with patterns. Proofs are kept until the sources or torch change."""
    process = subprocess.run(
        [sys.executable, "-m", PROOF], capture_output=True, text=True, check=False, timeout=TIMEOUT_S
    )
    yield from judge(process.stdout.splitlines())
    if process.returncode:
        last = (process.stderr.strip().splitlines() or ["no output"])[-1]
        yield Check(check="fusions", state="degraded", detail=last)


def judge(lines: Iterable[str]) -> Iterator[Check]:
    """Of each line of a proof, the check."""
    for line in lines:
        proof = json.loads(line)
        problems, forms = proof["problems"], proof["forms"]
        check = f"fusion {proof['name']}"
        if problems:
            first = problems[0]
            more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
            detail = f"{first['pattern']}: {first['what']}: {first['detail']}{more}"
            yield Check(check=check, state="degraded", detail=detail)
        else:
            yield Check(check=check, state="works", detail=f"{forms} pattern{'s' * (forms != 1)} proved")
