"""`with torch.cuda.graph(...)` in a program of its own: a capture that fails, and the call that made it fail.

Captures that succeed are not told: there is no size or graph to tell them by. vLLM's are seen where
vLLM makes them.
"""

from __future__ import annotations

import re
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any

from compdbg import probe
from compdbg.events import Capture, Where
from compdbg.hooks import userline
from compdbg.hooks.base import Hook, Part, Patches, Target, contained

NAME = "cuda_captures"
EXIT = Target("torch.cuda.graphs:graph.__exit__")
_OF_CAPTURE = re.compile(r"captur|out of memory", re.IGNORECASE)


def _around_exit(original: Callable[..., Any]) -> Callable[..., Any]:
    def __exit__(self: Any, *about: Any) -> Any:
        inside = about[1] if len(about) > 1 else None
        try:
            result = original(self, *about)
        except Exception as error:
            with contained(NAME):
                _record(inside or error)
            raise
        with contained(NAME):
            _record(inside)
        return result

    return __exit__


def _record(error: BaseException | None) -> None:
    """An error of the program's own is none of the capture's."""
    if error is None or not probe.active() or "vllm.compilation.cuda_graph" in sys.modules:
        return
    text = f"{type(error).__name__}: {error}"
    if not _OF_CAPTURE.search(text):
        return
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if userline.is_user_file(frame.filename)]
    probe.emit(
        Capture(
            graph="torch.cuda.graph",
            piece="",
            size=0,
            error=text.partition("\n")[0][:500],
            op=(own[-1].line or "").strip()[:120] if own else "",
            thread=threading.current_thread().name,
            stack=[Where(frame.filename, frame.lineno or 0, frame.name) for frame in own][-20:],
            where=userline.of_frames(frames),
        )
    )


def _install(patches: Patches) -> None:
    patches.wrap(EXIT, _around_exit)


HOOK = Hook(NAME, (Part("torch.cuda.graphs", _install),), (EXIT,))
