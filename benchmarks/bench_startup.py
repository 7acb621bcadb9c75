"""What compdbg costs before it does anything: `import compdbg`, `--help`, a program without torch."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

from benchmarks.table import show

ROUNDS = 15
COMMANDS: dict[str, Sequence[str]] = {
    "python -c pass": ("-c", "pass"),
    "python -c 'import compdbg'": ("-c", "import compdbg"),
    "compdbg --help": ("-m", "compdbg", "--help"),
    "compdbg run -c pass": ("-m", "compdbg", "run", "--quiet", "-c", "pass"),
}


def once(command: Sequence[str], folder: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, *command], cwd=folder, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began


def main() -> None:
    """Interleaved rounds, medians: the machine's noise falls on all alike."""
    with tempfile.TemporaryDirectory() as folder:
        taken: dict[str, list[float]] = {name: [] for name in COMMANDS}
        for _ in range(ROUNDS):
            for name, command in COMMANDS.items():
                taken[name].append(once(command, folder))
    base = statistics.median(taken["python -c pass"])
    rows = []
    for name, times in taken.items():
        median = statistics.median(times)
        rows.append((f"`{name}`", f"{median * 1e3:.0f} ms", f"{(median - base) * 1e3:+.0f} ms"))
    show("Start-up", ("command", "median", "against bare Python"), rows)


if __name__ == "__main__":
    main()
