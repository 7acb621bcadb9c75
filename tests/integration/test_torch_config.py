"""Settings of torch's own configuration that are in effect, and those that are not."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch._inductor.config as inductor  # noqa: E402

from compdbg.events import ConfigValue, HookError  # noqa: E402
from compdbg.findings.base import Finding  # noqa: E402
from compdbg.findings.collect import find_all  # noqa: E402
from compdbg.hooks import torch_config  # noqa: E402
from compdbg.model.run import Run  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")]
X = torch.ones(4)


@pytest.fixture
def recorded(record_here: Any) -> Iterator[Callable[..., Run]]:
    """Records `program`; settings are put back afterwards."""
    names = ("epilogue_fusion", "max_fusion_size")
    before = {name: getattr(inductor, name) for name in names}

    def run(program: Callable[[], Any]) -> Run:
        with record_here() as recording:
            program()
        loaded: Run = recording.load()
        assert [event for _, event in loaded.log.of(HookError)] == []
        return loaded

    yield run
    for name, value in before.items():
        setattr(inductor, name, value)


def found(run: Run) -> list[Finding]:
    return [f for f in find_all(run) if f.severity != "info"]


def compile_and_call(backend: str = "eager", **options: Any) -> None:
    def step(x: Any) -> Any:
        return x * 2

    torch.compile(step, backend=backend, **options)(X)


def in_a_thread(function: Callable[[], Any]) -> None:
    thread = threading.Thread(target=function, name="worker")
    thread.start()
    thread.join()


def test_another_thread_has_settings_of_its_own(recorded: Any) -> None:
    def program() -> None:
        inductor.epilogue_fusion = False
        in_a_thread(compile_and_call)

    (finding,) = found(recorded(program))
    assert finding.code == "config-overridden"
    assert finding.data["keys"] == ["torch._inductor.config.epilogue_fusion"]
    assert finding.data["changed_by"] == "the thread worker"
    assert finding.where is not None
    assert Path(finding.where.file) == Path(__file__)


def test_the_same_thread_and_the_view(recorded: Any) -> None:
    def program() -> None:
        inductor.epilogue_fusion = False
        compile_and_call()

    run = recorded(program)
    assert found(run) == []
    (setting,) = run.settings
    assert (setting.requested, setting.effective, setting.changed_by) == ("False", "False", "")


def test_a_patch_that_ended_before_the_first_call(recorded: Any) -> None:
    def step(x: Any) -> Any:
        return x * 2

    def program() -> None:
        with inductor.patch(max_fusion_size=7):
            compiled = torch.compile(step, backend="eager")
        compiled(X)

    (finding,) = found(recorded(program))
    assert finding.data["requested"] == {"torch._inductor.config.max_fusion_size": "7"}
    assert finding.data["changed_by"].startswith("the end of the patch at test_torch_config.py:")
    assert "options={...}" in finding.suggestion


def test_a_patch_around_the_first_call(recorded: Any) -> None:
    def step(x: Any) -> Any:
        return x * 2

    def program() -> None:
        with inductor.patch(max_fusion_size=7):
            compiled = torch.compile(step, backend="eager")
            compiled(X)
        compiled(torch.ones(5))
        compile_and_call()

    assert found(recorded(program)) == []


def test_a_library_that_sets_it_afterwards(recorded: Any) -> None:
    library = compile(
        "import torch\ntorch._inductor.config.max_fusion_size = 3", "/x/site-packages/lib.py", "exec"
    )

    def program() -> None:
        inductor.max_fusion_size = 9
        exec(library)
        compile_and_call()

    (finding,) = found(recorded(program))
    assert finding.data["changed_by"] == "<module> (lib.py:2)"


def test_a_library_that_is_overruled_by_the_program(recorded: Any) -> None:
    library = compile(
        "import torch\ntorch._inductor.config.max_fusion_size = 3", "/x/site-packages/lib.py", "exec"
    )

    def program() -> None:
        exec(library)
        inductor.max_fusion_size = 9
        compile_and_call()

    assert found(recorded(program)) == []


def test_an_environment_variable_that_wins(recorded: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inductor._config["max_fusion_size"], "env_value_force", 5)

    def program() -> None:
        inductor.max_fusion_size = 9
        compile_and_call()

    (finding,) = found(recorded(program))
    assert finding.data["changed_by"].startswith("the environment variable")


def test_an_option_of_one_compile_is_the_nearer_word(recorded: Any) -> None:
    def program() -> None:
        inductor.max_fusion_size = 9
        compile_and_call("inductor", options={"max_fusion_size": 4})

    run = recorded(program)
    assert found(run) == []
    assert run.log.of(ConfigValue) == []


def test_patches_of_threads_that_end_in_another_order(recorded: Any) -> None:
    """Each compiles under its own patch; that the first has ended is no business of the second."""

    def program() -> None:
        first_in, second_in, first_out = threading.Event(), threading.Event(), threading.Event()

        def first() -> None:
            with inductor.patch(max_fusion_size=11):
                compile_and_call()
                first_in.set()
                second_in.wait(30)
            first_out.set()

        def second() -> None:
            first_in.wait(30)
            with inductor.patch(max_fusion_size=22):
                second_in.set()
                first_out.wait(30)
                torch.compile(lambda x: x + 22, backend="eager")(X)

        threads = [threading.Thread(target=run, name=run.__name__) for run in (first, second)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    run = recorded(program)
    assert found(run) == []
    told = [(event.requested, event.effective) for _, event in run.log.of(ConfigValue)]
    assert ("22", "22") in told


def test_what_others_do_meanwhile_is_not_raised_into_the_program(record_here: Any, monkeypatch: Any) -> None:
    class Changing(dict[Any, Any]):
        def items(self) -> Any:
            raise RuntimeError("dictionary changed size during iteration")

    with record_here():
        torch.compile(lambda x: x, backend="eager")
        monkeypatch.setattr(torch_config, "_asked", Changing(a=[]))
        compile_and_call()
