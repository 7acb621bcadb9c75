"""`debug_dump_path`: everything readable of a compile, by rank, graph, piece, range and pass.

<path>/rank_0/Model/computation_graph.py, transformed_code.py
                   /piece_2/1-/piece.py, inductor_code.py
                              /passes/03.NormQuantFusionPass.before.py, .after.py
"""

from __future__ import annotations

import contextlib
import logging
import shutil
from collections.abc import Mapping
from pathlib import Path

from compdbg.compiler.caching import rank
from compdbg.compiler.config import CompilationConfig

log = logging.getLogger("compdbg.compiler")


class Dump:
    """A folder of the dump; where none is asked for, everything written is dropped."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    @property
    def wanted(self) -> bool:
        return self.folder is not None

    def at(self, *steps: str) -> Dump:
        """The folder below."""
        if self.folder is None:
            return self
        return Dump(self.folder.joinpath(*(step.replace("/", "_") for step in steps)))

    def write(self, files: Mapping[str, str]) -> None:
        """Texts by file name. A folder that can't be written to is said, and does no harm."""
        if self.folder is None:
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            for name, text in files.items():
                (self.folder / name).write_text(text, encoding="utf-8", errors="surrogateescape")
        except OSError as error:
            log.warning("debug_dump_path %s can't be written to: %s", self.folder, error.strerror)
            self.folder = None

    def copy(self, source: Path) -> None:
        """The readable copies that stand beside a cache entry."""
        if self.folder is None:
            return
        with contextlib.suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            for path in source.glob("*.py"):
                shutil.copy(path, self.folder / path.name)


NOWHERE = Dump(None)


def dump_of(config: CompilationConfig, graph: str) -> Dump:
    """Where a graph's dump goes."""
    if not config.debug_dump_path:
        return NOWHERE
    return Dump(Path(config.debug_dump_path).expanduser() / f"rank_{rank()}").at(graph)
