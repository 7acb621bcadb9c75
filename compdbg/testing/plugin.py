"""The pytest plugin: the fixture `compdbg`, a marker and an option for files of expectations.

Loaded into every pytest where compdbg is installed, so it imports nothing of ours, nor torch,
until a test asks for the fixture.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from compdbg.testing.recorder import Recorder

MARKER = "compdbg(expect): check each run that the test records against this file of expectations"
_recorder = pytest.StashKey["Recorder"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("compdbg").addoption(
        "--compdbg-expect",
        metavar="FILE.toml",
        help="check each run that a test records against this file of expectations",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)


@pytest.fixture(name="compdbg")
def compdbg_fixture(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Recorder]:
    """Records what torch compiles in a block, with fresh caches: `with compdbg.record() as run: ...`."""
    from compdbg.testing.caches import fresh_caches
    from compdbg.testing.recorder import Recorder

    folder = tmp_path_factory.mktemp("compdbg")
    recorder = Recorder(folder, _files(request.node, request.config))
    request.node.stash[_recorder] = recorder
    with fresh_caches(folder):
        yield recorder
    if recorder.files and not recorder.recordings:
        pytest.fail("expectations are given, and the test recorded no run", pytrace=False)


def _files(node: pytest.Item, config: pytest.Config) -> list[Path]:
    """The files that apply to a test: that of the option, and those of its markers."""
    given = config.getoption("--compdbg-expect")
    files = [config.invocation_params.dir / given] if given else []
    for marker in node.iter_markers("compdbg"):
        name = marker.kwargs.get("expect", *marker.args[:1] or [None])
        if name is None or marker.args[1:] or set(marker.kwargs) - {"expect"}:
            pytest.fail(f"the marker is {MARKER.partition(':')[0]}, with a file", pytrace=False)
        beside = node.path.parent / name
        files.append(beside if beside.exists() else config.rootpath / name)
    return files


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A marker without the fixture would expect and check nothing."""
    if item.get_closest_marker("compdbg") and "compdbg" not in getattr(item, "fixturenames", ()):
        pytest.fail("marked with compdbg(expect), but does not use the fixture `compdbg`", pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed test shows what its runs were, and where fusions stopped."""
    report = yield
    recorder = item.stash.get(_recorder, None)
    if recorder is not None and report.when == "call" and report.failed:
        report.sections.extend(("compdbg", text) for text in recorder.told())
    return report
