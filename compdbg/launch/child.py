"""What runs first in a recorded process: reads the environment and starts recording.

It runs while Python starts up, before the program's first import, in every process of a run,
most of which never import torch. So it imports nothing that Python has not loaded by itself;
what needs more (`record.session`: msgspec, events, hooks) is imported once torch has been.
"""

import os
import sys

from compdbg.hooks.importing import on_import
from compdbg.launch.missed import is_bootstrap, watch_subprocess
from compdbg.record.lines import warn
from compdbg.record.manifest import MANIFEST, Manifest, has_ended, new_sibling
from compdbg.record.process import Process, current, fatal_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from compdbg.record.options import Options

RUN = "COMPDBG_RUN"
RUN_OF_ENGINES = "VLLM_COMPDBG_RUN"
"""Engines that pass only variables of their own on to workers pass this one."""
OPTIONS = "COMPDBG_OPTIONS"
STARTED_BY = "COMPDBG_STARTED_BY"
"""Pid of who leads the run: `compdbg run`, or the first process. Absent: the user set `RUN`."""
LIBRARY = "COMPDBG_LIBRARY"
"""Where msgspec is, for interpreters that lack it."""

_site_path: list[str] = []


def start_from_environment(*, installed: bool = True) -> None:
    """Start recording where `COMPDBG_RUN` names a folder; nothing otherwise. Never raises.

    `installed`: this interpreter calls us by itself, and so do those that it starts; nothing of
    ours need stay on its path.
    """
    folder = os.environ.get(RUN) or os.environ.get(RUN_OF_ENGINES)
    if not folder or current() is not None or _is_no_program():
        return
    try:
        if installed:
            _take_off_the_path()
        _start(os.path.abspath(folder))
    except Exception as error:
        warn(f"not recording this process: {type(error).__name__}: {error}")


def _start(folder: str) -> None:
    import atexit  # built in

    _site_path[:] = sys.path
    started = os.environ.get(STARTED_BY)
    manifest = None if started else _lead(folder)
    if manifest is not None:
        folder = manifest.folder
    os.environ[RUN] = folder
    process = Process(folder, how="run" if started else "environment")
    process.begin()

    def torch_loaded() -> None:
        if current() is process:
            _begin_session(process)
        else:  # inside a block of `record()`, which has a session of its own
            process.when_resumed = torch_loaded

    on_import("torch", torch_loaded)
    on_import("subprocess", watch_subprocess)

    def end() -> None:
        process.end(fatal_error())
        if manifest is not None and manifest.fields["pid"] == os.getpid():
            manifest.finish()

    atexit.register(end)


def _lead(folder: str) -> Manifest | None:
    """Become the leader of a run that only the environment asks for, unless it has one.

    A run that has ended, or whose leader died, is not added to: what was wrong then may be mended now.
    """
    os.makedirs(folder, exist_ok=True)
    manifest = Manifest(folder, sys.orig_argv, {})
    if not manifest.claim():
        if not has_ended(folder):
            return None
        manifest = Manifest(new_sibling(folder), sys.orig_argv, {})
        manifest.write()
        warn(f"{folder} holds an earlier run; recording to {manifest.folder}")
    os.environ[STARTED_BY] = str(os.getpid())
    return manifest


def _is_no_program() -> bool:
    """Processes that are not the user's: ours, and the one that keeps multiprocessing's books."""
    words = sys.orig_argv[1:]
    while words and words[0].startswith("-"):
        option = words.pop(0)
        if option == "-c":
            return bool(words) and words[0].startswith("from multiprocessing.resource_tracker import")
        if option == "-m":
            break
        if option in ("-X", "-W"):
            del words[:1]
    return bool(words) and os.path.basename(words[0]) == "compdbg"


def _take_off_the_path() -> None:
    """Leave `sys.path` and PYTHONPATH as the user made them."""
    sys.path[:] = [entry for entry in sys.path if not is_bootstrap(entry)]
    entries = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    kept = [entry for entry in entries if not is_bootstrap(entry)]
    if len(kept) == len(entries):
        return
    os.environ["PYTHONPATH"] = os.pathsep.join(kept)
    if not kept:
        del os.environ["PYTHONPATH"]
    os.environ.pop(LIBRARY, None)


def _begin_session(process: Process) -> None:
    sys.path[:0] = _site_path  # a file beside the script must not become a module of ours
    try:
        _start_session(process)
    except Exception as error:
        process.lines.note("hook-error", hook="session", error=f"{type(error).__name__}: {error}")
        warn(f"not recording this process: {type(error).__name__}: {error}")
    finally:
        for entry in _site_path:
            sys.path.remove(entry)  # the first, which is ours


def _start_session(process: Process) -> None:
    _find_msgspec()
    from compdbg.record import options
    from compdbg.record.session import Session

    chosen = _options(process.folder)
    options.set_current(chosen)
    process.session = Session(process.lines, chosen)
    process.session.start()


def _find_msgspec() -> None:
    """Load msgspec from the environment that compdbg came from, where this one has none."""
    from importlib.util import find_spec, module_from_spec, spec_from_file_location

    folder = os.environ.get(LIBRARY)
    if not folder or "msgspec" in sys.modules or find_spec("msgspec") is not None:
        return
    spec = spec_from_file_location(
        "msgspec", os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["msgspec"] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules["msgspec"]
        raise


def _options(folder: str) -> "Options":
    """As the leader was told them: in the environment, or else in the run's own folder."""
    import msgspec

    from compdbg.record.options import Options

    given = os.environ.get(OPTIONS)
    if given:
        return msgspec.json.decode(given, type=Options)
    try:
        with open(os.path.join(folder, MANIFEST), "rb") as file:
            manifest = msgspec.json.decode(file.read())
        return msgspec.convert(manifest["options"], Options)
    except (OSError, KeyError, msgspec.MsgspecError):
        return Options()
