"""The environment that a program is started with, so that it and what it starts is recorded."""

from __future__ import annotations

import os
import site
import sys

import msgspec

from compdbg.launch.child import LIBRARY, OPTIONS, RUN, STARTED_BY
from compdbg.launch.missed import BOOTSTRAP
from compdbg.record.lines import WARNED
from compdbg.record.options import Options

START_FILE = "compdbg.pth"


def recording_environment(folder: str, options: Options, *, foreign: bool) -> dict[str, str]:
    """`os.environ` and what starts recording into `folder`.

    `foreign`: the program may run under another interpreter than this one. One in which compdbg
    is installed starts recording by its own `.pth` file; any other by a folder on PYTHONPATH,
    which `child` takes off again where it is not needed.
    """
    environment = dict(os.environ)
    environment.pop(WARNED, None)
    environment.pop(OPTIONS, None)
    environment |= {RUN: folder, STARTED_BY: str(os.getpid())}
    if options != Options():
        environment[OPTIONS] = msgspec.json.encode(options).decode()
    if foreign or not starts_by_itself():
        before = environment.get("PYTHONPATH")
        environment["PYTHONPATH"] = BOOTSTRAP if not before else BOOTSTRAP + os.pathsep + before
        environment[LIBRARY] = os.path.dirname(os.path.abspath(msgspec.__file__))
    return environment


def starts_by_itself() -> bool:
    """Whether this interpreter starts recording without help: our `.pth` file is where it is read."""
    folders = site.getsitepackages()
    if site.ENABLE_USER_SITE:
        folders.append(site.getusersitepackages())
    return not sys.flags.no_site and any(os.path.isfile(os.path.join(f, START_FILE)) for f in folders)
