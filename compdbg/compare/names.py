"""Names that mean the same thing in two runs: no ids, no addresses, no lines that an edit moves."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import PurePath

from compdbg.model.frames import Compile, place_of
from compdbg.model.run import Run

_COMPILE_ID = re.compile(r"\b\d+/\d+\b")
_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}\b|\b\d{9,}\b")
_FOLDER = re.compile(r"(?<![\w.])(?:/[\w.+-]+)+/(?=[\w.+-])")
_LINE = re.compile(r"(?<=\w)\.py:\d+")
_RESUMED = re.compile(r"^torch_dynamo_resume_in_(.+)_at_\d+$")


Script = tuple[str, str]
"""The file that a run's program is, and the name under which the first of two runs has it."""


def script_of(run: Run, first: Run) -> Script:
    """Two runs of one program under two names, as before and after an edit, are compared as one."""
    own, shown = (PurePath((r.summary.argv or [""])[0]).name for r in (run, first))
    return (own, shown) if own.endswith(".py") and shown.endswith(".py") else ("", "")


class Names:
    """Frames and graphs of one run: `model.py:forward` for `/home/me/model.py:12:forward`, and
    `model.py:forward [2]` for what belongs to its second compile."""

    def __init__(self, run: Run, script: Script = ("", "")) -> None:
        frames = [*(c.frame for c in run.frames.compiles), *(e.frame for e in run.entries)]
        self._frames = _frame_names(frames, script)
        by_frame: dict[tuple[str, str], list[Compile]] = defaultdict(list)
        for compiled in run.frames.compiles:
            if compiled.compile_id:
                by_frame[compiled.process, compiled.frame].append(compiled)
        self._compiles: dict[tuple[str, str], str] = {}
        for (process, frame), compiles in by_frame.items():
            for number, compiled in enumerate(compiles, 1):
                name = self.frame(frame) + (f" [{number}]" if number > 1 else "")
                self._compiles.setdefault((process, compiled.compile_id), name)

    def frame(self, frame: str) -> str:
        return self._frames.get(frame, frame)

    def compiled(self, process: str, compile_id: str | None) -> str:
        """What was compiled as `0/1`, as the frame and the number of its compile."""
        return self._compiles.get((process, compile_id or ""), compile_id or "")

    def graph(self, process: str, graph: str | None) -> str:
        """A graph's name with its compile id told as above: `0/1 submod_2` names a piece of it."""
        return _COMPILE_ID.sub(lambda found: self.compiled(process, found[0]), graph or "")


def _frame_names(frames: list[str], script: Script) -> dict[str, str]:
    alike: dict[str, list[str]] = defaultdict(list)
    for frame in dict.fromkeys(frames):
        alike[_frame_name(frame, script)].append(frame)
    return {
        frame: name if n == 1 else f"{name} #{n}"
        for name, same in alike.items()
        for n, frame in enumerate(sorted(same, key=_line), 1)
    }


def _frame_name(frame: str, script: Script) -> str:
    where = place_of(frame)
    if where is None:
        return plain(frame)
    resumed = _RESUMED.match(where.function)
    function = f"{resumed[1]} (resumed)" if resumed else where.function
    return f"{file_name(where.file, script)}:{function}"


def file_name(file: str, script: Script) -> str:
    """A file without its folder; of the program itself, what the first run calls it."""
    name = PurePath(file).name
    return script[1] if name == script[0] else name


def _line(frame: str) -> tuple[int, str]:
    where = place_of(frame)
    return (where.line if where is not None else 0), frame


def plain(text: str) -> str:
    """A text on one line, without addresses and object ids, and with files by their name alone."""
    return " ".join(_ADDRESS.sub("…", _LINE.sub(".py", _FOLDER.sub("", text))).split())
