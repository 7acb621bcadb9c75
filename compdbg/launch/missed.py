"""Notes the Python processes that a program starts without what recording needs, so `health` can say so.

Looks at what `subprocess` is about to execute, and changes nothing of it: an environment that the
program has scrubbed stays scrubbed.
"""

import os
import sys

from compdbg.record.privacy import safe_argv
from compdbg.record.process import current

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

BOOTSTRAP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bootstrap")
"""The folder on PYTHONPATH that starts recording in interpreters without our `.pth` file."""
_END_OF_BOOTSTRAP = os.path.join("compdbg", "launch", "bootstrap")
_NAMES = ("COMPDBG_RUN", "VLLM_COMPDBG_RUN")
MAX_NOTES = 20
_notes = 0


def is_bootstrap(entry: str) -> bool:
    """Whether an entry of a path is that folder, of this or of another environment's compdbg."""
    return entry.endswith(_END_OF_BOOTSTRAP)


def watch_subprocess() -> None:
    """After the program imported `subprocess`: look at each command before it is forked."""
    subprocess = sys.modules["subprocess"]
    original = getattr(subprocess, "_fork_exec", None)
    if original is None or getattr(original, "compdbg_original", None) is not None:
        return

    def fork_exec(args: "Any", executables: "Any", *rest: "Any") -> "Any":
        _note(args, rest)
        process = current()
        try:
            if process is not None:
                process.starts_command = True
            return original(args, executables, *rest)
        except BaseException as error:
            if error.__traceback__ is not None:  # the program's traceback is without this frame
                error.__traceback__ = error.__traceback__.tb_next
            raise
        finally:
            if process is not None:
                process.starts_command = False

    fork_exec.compdbg_original = original  # type: ignore[attr-defined]
    subprocess._fork_exec = fork_exec  # type: ignore[attr-defined]


def _note(args: "Any", rest: "Sequence[Any]") -> None:
    global _notes
    process = current()
    if process is None or _notes >= MAX_NOTES:
        return
    try:
        words = [os.fsdecode(word) for word in args]
        environment = rest[3]
        reason = why_missed(words, environment)
        if reason:
            _notes += 1
            process.lines.note("process-missed", argv=safe_argv(words), reason=reason)
    except Exception:  # arguments that `subprocess` itself is about to refuse
        return


def why_missed(words: "Sequence[str]", environment: "Sequence[bytes] | None") -> str:
    """Why a command will not be recorded; empty where it will be, or is no Python."""
    if not words or not _is_python(words[0]):
        return ""
    flags = _flags(words[1:])
    if "S" in flags:
        return "python -S starts nothing"
    path = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if any(map(is_bootstrap, path)):  # this interpreter has no .pth file of ours
        for letter in "IE":
            if letter in flags:
                return f"python -{letter} ignores PYTHONPATH"
    if environment is None:
        kept = any(name in os.environ for name in _NAMES)
    else:
        kept = any(entry.startswith(tuple(f"{name}=".encode() for name in _NAMES)) for entry in environment)
    return "" if kept else "its environment was replaced by one without COMPDBG_RUN"


def _is_python(executable: str) -> bool:
    name = os.path.basename(executable)
    return executable == sys.executable or name.rstrip("0123456789.") == "python"


def _flags(words: "Sequence[str]") -> str:
    """The letters of the interpreter's options that stand before the program."""
    letters = ""
    for word in words:
        if not word.startswith("-") or word.startswith("--"):
            break
        cluster = word[1:]
        end = min((cluster.index(c) for c in "cmWX" if c in cluster), default=len(cluster))
        letters += cluster[:end]
        if set(cluster) & set("cm"):
            break
    return letters
