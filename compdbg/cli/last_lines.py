"""What `run` says after the program's own last word: the worst findings and the next command.

Worked out in a process of its own, so that neither a huge log nor a fault of ours delays or
disturbs the end of the program: what is not there in time is left out.
"""

from __future__ import annotations

import gc
import os
import select
import shlex
import signal
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from compdbg.record.manifest import Manifest

if TYPE_CHECKING:
    from compdbg.findings.base import Finding
    from compdbg.model.run import Run

PATIENCE_S = 0.8
"""The last line is due within a second of the program's end."""
WORST = 3
_BY_COMMAND_LINE = ("-cc.", "--enforce-eager")


def print_last_lines(
    manifest: Manifest, named: str | None, overrides: Sequence[str] = (), report: str | None = None
) -> None:
    """At most four lines on stderr; never raises. `overrides` are the keys that `-cc.` set, `report` the
    file that is going to be written."""
    if not os.path.isdir(manifest.folder):  # the program removed it
        return
    target = f" {_word(named)}" if named else ""
    found = _in_time(manifest.folder, overrides)
    if found is None:
        lines = [f"recorded in {manifest.folder}; next: compdbg explain{target}"]
    else:
        counts, worst, verdict = found
        manifest.add(findings=counts)
        faults = counts.get("error") or counts.get("warning")
        lines = [*worst, f"{verdict}; next: compdbg {'explain' if faults else 'show'}{target}"]
    if report is not None:
        lines[-1] += f"; report: {report}"
    try:
        os.write(2, "".join(f"compdbg: {line}\n" for line in lines).encode("utf-8", "backslashreplace"))
    except OSError:
        return


def _word(folder: str) -> str:
    """A folder as an argument that no shell, and no command of ours, takes for something else."""
    return shlex.quote(folder if "/" in folder else f"{folder}/")


Found = tuple[dict[str, int], list[str], str]


def _in_time(folder: str, overrides: Sequence[str]) -> Found | None:
    """The counts of findings, the worst as lines, and the verdict; None if that fails or takes long."""
    import msgspec

    answer, write = os.pipe()
    deadline = time.monotonic() + PATIENCE_S
    worker = os.fork()
    if worker == 0:
        try:
            gc.disable()  # it ends in a second
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            os.write(write, msgspec.json.encode(_find(folder, overrides)))
        finally:
            os._exit(0)
    os.close(write)
    content = b""
    while select.select([answer], [], [], max(0.0, deadline - time.monotonic()))[0]:
        part = os.read(answer, 65536)
        if not part:
            break
        content += part
    os.kill(worker, signal.SIGKILL)
    os.waitpid(worker, 0)
    os.close(answer)
    try:
        return msgspec.json.decode(content, type=Found)
    except msgspec.DecodeError:
        return None


def _find(folder: str, overrides: Sequence[str]) -> Found:
    from pathlib import Path

    from compdbg.findings.collect import find_all
    from compdbg.model.run import load

    run = load(Path(folder))
    found = find_all(run)
    counts = {s: sum(f.severity == s for f in found) for s in ("error", "warning", "info")}
    worst = [_line(f) for f in found if f.severity != "info"][:WORST]
    unused = overrides and not any(s.changed_by.startswith(_BY_COMMAND_LINE) for s in run.settings)
    if unused:
        keys = ", ".join("--enforce-eager" if key == "enforce_eager" else f"-cc.{key}" for key in overrides)
        worst = [f"warning: {keys} changed nothing: the program used no compdbg.compiler", *worst][:WORST]
    return counts, worst, _verdict(run, found, counts)


def _verdict(run: Run, found: Sequence[Finding], counts: dict[str, int]) -> str:
    """In half a sentence what was found, and how the program failed where no finding says it."""
    from compdbg.report.text import clean
    from compdbg.views.asked import checks
    from compdbg.views.ending import failure, is_told

    failed = "" if is_told(run, found) else clean(failure(run, with_message=False))
    if counts["error"] or counts["warning"]:
        return f"{failed}; {_count(counts)}" if failed else _count(counts)
    if failed:
        seen = f"{failed}; " + ("no finding explains it" if run.summary.torch else "torch was not imported")
    else:
        seen = "no fault was found" if run.summary.torch else "torch was not imported"
        vain = [said for asked, said in zip(run.asked, checks(run), strict=True) if not asked.compared]
        seen += f", but {' and '.join(vain)}" if vain and run.summary.torch else ""
    return f"{seen}; recorded in {os.path.relpath(run.summary.path)}"


def _line(finding: Finding) -> str:
    from compdbg.report.text import clean, fit
    from compdbg.views.places import place

    where = f"{place(finding.where)}: " if finding.where else ""
    return fit(clean(f"{finding.id} {finding.severity}: {where}{finding.title}"), _width())


def _count(counts: dict[str, int]) -> str:
    from compdbg.views.places import counted

    return " and ".join(counted(counts[s], s) for s in ("error", "warning") if counts[s])


def _width() -> int:
    """The terminal's, less our name before the line; without one, enough for any sentence."""
    try:
        return os.get_terminal_size(2).columns - len("compdbg: ")
    except OSError:
        return 240
