"""`compdbg.record()`: observes a block of the running program, for notebooks, debuggers and tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from compdbg import probe
from compdbg.record import options as recording_options
from compdbg.record.manifest import finish_manifest, new_run_folder, start_manifest
from compdbg.record.options import Options
from compdbg.record.session import Session

if TYPE_CHECKING:
    from compdbg.model.run import Run


class Recording:
    """What `with record() as run` gives: readable inside the block and after it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def load(self) -> Run:
        """The run as recorded so far."""
        from compdbg.model.run import load

        return load(self.path)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.load(), name)


@contextmanager
def record(path: str | Path | None = None, **options: Any) -> Iterator[Recording]:
    """Record what torch compiles inside the block to the folder `path`.

    Without `path` the run goes to `compdbg-runs/` below the current directory. `options` are
    the long options of `compdbg run` (`audit="all"`, `inductor_patterns=True`, ...).

    Raises:
        RuntimeError: this process is being recorded already.
        FileExistsError: `path` is a folder that is not empty.
        TypeError: an option that does not exist, or a value of the wrong type.
    """
    if probe.active():
        raise RuntimeError("compdbg is already recording in this process")
    chosen = _options(options)
    folder = new_run_folder("record") if path is None else Path(path)
    if folder.is_dir() and any(folder.iterdir()):
        raise FileExistsError(f"{folder} is not empty; name another folder")
    folder.mkdir(parents=True, exist_ok=True)
    start_manifest(folder, list(sys.argv), chosen)
    recording_options.set_current(chosen)
    session = Session(folder, chosen, how="record")
    session.start()
    try:
        yield Recording(folder)
    finally:
        session.close()
        finish_manifest(folder, exit_status=0)


def _options(given: dict[str, Any]) -> Options:
    unknown = set(given) - set(Options.__struct_fields__)
    if unknown:
        known = ", ".join(Options.__struct_fields__)
        raise TypeError(f"record() has no option {', '.join(sorted(unknown))}; there are: {known}")
    try:
        return msgspec.convert(given, Options)
    except msgspec.ValidationError as error:
        raise TypeError(str(error)) from None
