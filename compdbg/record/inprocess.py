"""`compdbg.record()`: observes a block of the running program, for notebooks, debuggers and tests."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from compdbg import probe
from compdbg.hooks.installed import hook_names
from compdbg.launch.child import OPTIONS, RUN, STARTED_BY
from compdbg.record import options as recording_options
from compdbg.record import process as recorded
from compdbg.record.lines import warn
from compdbg.record.manifest import Manifest, new_run_folder
from compdbg.record.options import Options
from compdbg.record.session import Session, compiled_frames

if TYPE_CHECKING:
    from compdbg.model.run import Run


class Recording:
    """What `with record() as run` gives: readable inside the block and after it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._finished = False
        self._run: Run | None = None

    def load(self) -> Run:
        """The run as recorded so far; once the block has ended, the whole of it."""
        from compdbg.model.run import load

        if self._run is None or not self._finished:
            self._run = load(self.path)
        return self._run

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.load(), name)

    def _finish(self) -> None:
        self._finished = True
        self._run = None


_recording = False


@contextmanager
def record(path: str | Path | None = None, **options: Any) -> Iterator[Recording]:
    """Record what torch compiles inside the block to the folder `path`.

    Without `path` the run goes to `compdbg-runs/` below the current directory. `options` are
    the long options of `compdbg run` (`audit="all"`, `inductor_patterns=True`, ...). Processes
    that the block starts are recorded too. In a program that is itself run by `compdbg run`,
    what happens in the block goes to this recording and not to that one.

    Raises:
        RuntimeError: a block of this process is being recorded already.
        FileExistsError: `path` is a folder that is not empty.
        TypeError: an option that does not exist, or a value of the wrong type.
    """
    global _recording
    if _recording or (probe.active() and recorded.current() is None):
        raise RuntimeError("compdbg is already recording in this process")
    chosen = _options(options)
    folder = _folder(path)
    _recording = True
    try:
        yield from _recorded(folder, chosen)
    finally:
        _recording = False


def _recorded(folder: Path, chosen: Options) -> Iterator[Recording]:
    outer = recorded.current()
    before = recording_options.current()
    environment = {name: os.environ.get(name) for name in (RUN, OPTIONS, STARTED_BY)}
    manifest = Manifest(str(folder), list(sys.argv), msgspec.to_builtins(chosen))
    process = recorded.Process(str(folder), how="record")
    recording = Recording(folder)
    error: BaseException | None = None
    if outer is not None:
        outer.pause()
    try:
        recording_options.set_current(chosen)
        _export(folder, chosen)
        with contextlib.suppress(OSError):  # the log's own attempt will say so
            manifest.write()
        process.begin(compiled_frames())
        process.session = Session(process.lines, chosen)
        process.session.start()
        yield recording
    except BaseException as raised:
        error = raised
        raise
    finally:
        process.end(error)
        manifest.finish()
        recording._finish()
        _restore(environment)
        recording_options.set_current(before)
        if outer is not None:
            outer.resume()


def _folder(path: str | Path | None) -> Path:
    if path is not None and Path(path).is_dir() and any(Path(path).iterdir()):
        raise FileExistsError(f"{path} is not empty; name another folder")
    try:
        folder = Path(new_run_folder("record")) if path is None else Path(path).absolute()
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        warn(f"not recording: {error}")
        return Path(os.devnull)
    return folder


def _export(folder: Path, chosen: Options) -> None:
    """Let processes that the block starts record themselves, where compdbg is installed."""
    os.environ[RUN] = str(folder)
    os.environ[OPTIONS] = msgspec.json.encode(chosen).decode()
    os.environ[STARTED_BY] = str(os.getpid())


def _restore(environment: dict[str, str | None]) -> None:
    for name, value in environment.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _options(given: dict[str, Any]) -> Options:
    unknown = set(given) - set(Options.__struct_fields__)
    if unknown:
        fields = ", ".join(Options.__struct_fields__)
        raise TypeError(f"record() has no option {', '.join(sorted(unknown))}; there are: {fields}")
    try:
        chosen = msgspec.convert(given, Options)
    except msgspec.ValidationError as error:
        raise TypeError(str(error)) from None
    known = hook_names() if chosen.skip else []
    if unknown := set(chosen.skip) - set(known):
        raise TypeError(f"no hook {', '.join(sorted(unknown))} to skip; there are: {', '.join(known)}")
    return chosen
