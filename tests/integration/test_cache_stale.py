"""Hits on artifacts that were made with another op or pass. No kernel is compiled here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._inductor.custom_graph_pass import CustomGraphPass

from compdbg.events import HookError
from compdbg.findings.base import Finding
from compdbg.findings.collect import find_all
from compdbg.model.run import Run

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore::DeprecationWarning:torch"),
    pytest.mark.filterwarnings("ignore:dynamo_pgo force disabled"),
]
X, W = torch.ones(4, 8), torch.ones(8, 8)


@pytest.fixture
def start(tmp_path: Path, record_here: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Run]]:
    """One start of a program that compiles `function`, with caches of the test's own."""
    import torch._inductor.config
    from torch._inductor.utils import clear_caches

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "torchinductor"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    clear_caches()

    def run(function: Callable[..., Any], **config: Any) -> Run:
        torch._dynamo.reset()
        with record_here() as recording, torch._inductor.config.patch(config), torch.no_grad():
            torch.compile(function)(X, W)
        loaded: Run = recording.load()
        assert [event for _, event in loaded.log.of(HookError)] == []
        return loaded

    yield run
    clear_caches()


def results(run: Run) -> set[str]:
    return {lookup.result for lookup in run.lookups}


def found(run: Run) -> list[Finding]:
    return [f for f in find_all(run) if f.severity != "info"]


def project(x: Tensor, w: Tensor) -> Tensor:
    return x @ w


@torch.library.custom_op("stale::halved", mutates_args=())
def halved(x: Tensor) -> Tensor:
    return x / 2


def call_op(x: Tensor, w: Tensor) -> Tensor:
    return halved(x)


def old_fake(x: Tensor) -> Tensor:
    return torch.empty_like(x)


def new_fake(x: Tensor) -> Tensor:
    return x.new_empty(x.shape)


class OldPass(CustomGraphPass):
    def __call__(self, graph: Any) -> None:
        graph.lint()

    def uuid(self) -> str:
        return "constant"


class NewPass(CustomGraphPass):
    def __call__(self, graph: Any) -> None:
        graph.eliminate_dead_code()

    def uuid(self) -> str:
        return "constant"


NewPass.__name__ = OldPass.__name__ = "Tidy"


def test_a_fake_that_changed(start: Any) -> None:
    halved.register_fake(old_fake)
    assert results(start(call_op)) == {"miss"}
    halved.register_fake(new_fake)
    run = start(call_op)
    assert results(run) == {"hit"}
    (finding,) = found(run)
    assert (finding.code, finding.severity, finding.cost.results) == ("cache-stale", "error", "wrong")
    assert finding.title == "the fake of stale::halved has changed, and 1 graph compiled before is used"
    assert finding.where is not None
    assert finding.where.line == new_fake.__code__.co_firstlineno
    assert set(finding.data["layers"]) >= {"aot"}


def test_the_same_fake_again(start: Any) -> None:
    halved.register_fake(old_fake)
    start(call_op)
    halved.register_fake(old_fake)
    run = start(call_op)
    assert results(run) == {"hit"}
    assert found(run) == []


def test_a_pass_that_changed_and_kept_its_uuid(start: Any) -> None:
    start(project, post_grad_custom_post_pass=OldPass())
    run = start(project, post_grad_custom_post_pass=NewPass())
    assert results(run) == {"hit"}
    (finding,) = found(run)
    assert finding.data["changes"][0]["name"] == "the pass Tidy (post_grad_custom_post_pass)"
    assert "get_hash_for_files" in finding.suggestion


def test_the_same_pass_in_a_second_start(start: Any) -> None:
    start(project, post_grad_custom_post_pass=OldPass())
    run = start(project, post_grad_custom_post_pass=OldPass())
    assert results(run) == {"hit"}
    assert found(run) == []


def test_of_an_artifact_made_unobserved_nothing_is_known(start: Any, tmp_path: Path) -> None:
    import torch._inductor.config

    torch._dynamo.reset()
    with torch._inductor.config.patch(post_grad_custom_post_pass=OldPass()), torch.no_grad():
        torch.compile(project)(X, W)
    for _ in range(2):
        run = start(project, post_grad_custom_post_pass=NewPass())
        assert results(run) == {"hit"}
        assert found(run) == []
