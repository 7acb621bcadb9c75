"""Rules, hooks and passes of other packages, installed as pip would: as documented, and when they fail."""

from __future__ import annotations

import json
import re
import sys
import tomllib
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from compdbg.cli.main import main  # noqa: E402
from compdbg.compiler import CompilationConfig, support_torch_compile, use_config  # noqa: E402
from compdbg.compiler.config_values import ConfigError  # noqa: E402
from compdbg.events import Span, UnknownEvent  # noqa: E402
from compdbg.findings.collect import find_all  # noqa: E402
from compdbg.testing.caches import fresh_caches  # noqa: E402
from tests.integration.installed import install  # noqa: E402

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # torch deprecates what it uses itself
    import torch._inductor.compile_fx

pytestmark = pytest.mark.torch
Recorder = Callable[..., AbstractContextManager[Any]]
Installer = Callable[..., None]
DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Installer]:
    """Installs a package for this test: `installed(group, {name: object}, module=source)`."""
    before = set(sys.modules)

    def add(group: str, entries: dict[str, str], **modules: str) -> None:
        folder = install(tmp_path / "site", "someones-package", {group: entries}, **modules)
        monkeypatch.syspath_prepend(folder)

    yield add
    for module in set(sys.modules) - before:
        if module.startswith("my_"):
            del sys.modules[module]


def documented(page: str) -> tuple[str, dict[str, str], dict[str, str]]:
    """The first example of a page: its entry point's group, the entry points, the module."""
    text = (DOCS / page).read_text()
    (source,) = re.findall(r"^`(\w+)\.py`:\n\n```python\n(.*?)```", text, re.DOTALL | re.MULTILINE)
    toml = tomllib.loads(re.findall(r"```toml\n(.*?)```", text, re.DOTALL)[0])
    ((group, entries),) = toml["project"]["entry-points"].items()
    return group, entries, dict([source])


class TestRules:
    def called_once(self, record_here: Recorder) -> Any:
        with record_here() as run:
            step = torch.compile(lambda x: x.sin(), backend="eager")
            step(torch.ones(3))
        return run

    def test_as_documented(
        self, installed: Installer, record_here: Recorder, capsys: pytest.CaptureFixture[str]
    ) -> None:
        group, entries, modules = documented("write-a-rule.md")
        assert modules["my_rules"].count("\n") <= 18
        installed(group, entries, **modules)
        run = self.called_once(record_here)
        (finding,) = [f for f in find_all(run.load()) if f.code == "called-once"]
        assert (finding.severity, finding.where.file) == ("info", __file__)
        assert finding.evidence
        assert main(["explain", "--code", "called-once"]) == 0
        assert "served a single call" in capsys.readouterr().out
        expect = run.path.parent / "e.toml"
        expect.write_text('[findings]\ndeny = ["called-once"]\n')
        assert main(["check", str(run.path), "--expect", str(expect)]) == 1
        assert main(["explain", str(run.path)]) == 0

    @pytest.mark.parametrize(
        ("source", "says"),
        [
            ("def rule(run):\n    return 1 / 0", "ZeroDivisionError"),
            ("def rule(run):\n    return ['a finding']", "gave a str, not a Finding"),
            ("import nowhere", "ModuleNotFoundError"),
            ("def rule(run):\n    yield\n    raise SystemError", "gave a NoneType|SystemError"),
        ],
    )
    def test_one_that_fails_is_told_and_stops_nothing(
        self, installed: Installer, record_here: Recorder, source: str, says: str
    ) -> None:
        installed("compdbg.rules", {"odd": "my_odd:rule"}, my_odd=source)
        run = self.called_once(record_here)
        (finding,) = find_all(run.load())
        assert (finding.code, finding.data["rule"]) == ("recorder-degraded", "odd")
        assert "the rule 'odd' of someones-package failed" in finding.title
        assert re.search(says, finding.cause)


class TestHooks:
    def compiled(self, record_here: Recorder, folder: Path, **options: Any) -> Any:
        """A graph that Inductor compiles here, whatever was compiled on this machine before."""
        with fresh_caches(folder), record_here(**options) as run:
            torch.compile(lambda x: x.sin() + 1)(torch.ones(3))
        return run.load()

    def test_as_documented(self, installed: Installer, record_here: Recorder, tmp_path: Path) -> None:
        group, entries, modules = documented("write-a-hook.md")
        assert modules["my_hooks"].count("\n") <= 13
        installed(group, entries, **modules)
        run = self.compiled(record_here, tmp_path / "caches")
        assert [e.name for _, e in run.log.of(Span) if e.name.startswith("fused ")] == [
            "fused 1 nodes into 1"
        ]
        assert {h.hook: h.state for h in run.health.hooks}["scheduler"] == "works"
        assert not [f for f in find_all(run) if f.severity != "info"]
        without = self.compiled(record_here, tmp_path / "caches", skip=("scheduler",))
        assert {h.hook: h.state for h in without.health.hooks}["scheduler"] == "unused"

    def test_events_of_its_own_are_kept(self, installed: Installer, record_here: Recorder) -> None:
        source = """
from compdbg import probe
from compdbg.events.base import Event
from compdbg.hooks.base import Target, observing

class KernelLaunched(Event, frozen=True):
    name: str

HOOK = observing("mine", Target("torch._dynamo.eval_frame:innermost_fn"),
                 lambda result, *args, **kwargs: probe.emit(KernelLaunched(name="k")))
"""
        installed("compdbg.hooks", {"mine": "my_hook:HOOK"}, my_hook=source)
        with record_here() as run:
            torch.compile(lambda x: x.sin(), backend="eager")(torch.ones(3))
        kept = [e for _, e in run.log.of(UnknownEvent)]
        assert {(e.kind, e.fields["name"]) for e in kept} == {("kernel-launched", "k")}

    @pytest.mark.parametrize(
        ("source", "state", "says"),
        [
            ("1 / 0", "absent", "ZeroDivisionError"),
            ("HOOK = 3", "absent", "is a int, not a Hook"),
            ("HOOK = observing('mine', Target('torch._dynamo.eval_frame:gone'), print)", "degraded", "gone"),
            (
                "def after(*args, **kwargs):\n    raise ValueError('broken')\n"
                "HOOK = observing('mine', Target('torch._dynamo.eval_frame:innermost_fn'), after)",
                "degraded",
                "ValueError: broken",
            ),
        ],
    )
    def test_one_that_fails_is_told_and_the_program_runs(
        self, installed: Installer, record_here: Recorder, source: str, state: str, says: str
    ) -> None:
        head = "from compdbg.hooks.base import Target, observing\n"
        installed("compdbg.hooks", {"mine": "my_hook:HOOK"}, my_hook=head + source)
        with record_here() as run:
            out = torch.compile(lambda x: x.sin(), backend="eager")(torch.zeros(3))
        assert out.tolist() == [0.0, 0.0, 0.0]
        (hook,) = [h for h in run.health.hooks if h.hook == "mine"]
        assert hook.state == state
        assert says in "; ".join(hook.details)
        assert [f.data["hook"] for f in find_all(run.load()) if f.code == "recorder-degraded"] == ["mine"]


@support_torch_compile(dynamic_arg_dims={"x": 0})
class AddsZero(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x.sin() + 0) * 2


class TestPasses:
    def served(self, record_here: Recorder, name: str) -> tuple[Any, torch.Tensor]:
        x = torch.arange(4.0)
        config = CompilationConfig(
            inductor_passes=[name], disable_cache=True, pass_config={"eliminate_noops": False}
        )
        with record_here() as run, use_config(config), torch.inference_mode():
            out = AddsZero()(x)
        torch.testing.assert_close(out, x.sin() * 2)
        return run.load(), out

    def test_as_documented(self, installed: Installer, record_here: Recorder) -> None:
        group, entries, modules = documented("write-a-pass.md")
        assert modules["my_passes"].count("\n") <= 10
        installed(group, entries, **modules)
        run, _ = self.served(record_here, "drop-add-zero")
        (ran,) = [p for p in run.passes if p.name == "drop-add-zero"]
        assert ran.error is None

    @pytest.mark.parametrize(
        ("source", "says", "line"),
        [
            ("import nowhere", "ModuleNotFoundError: No module named 'nowhere'", 1),
            (
                "def tidy(graph):\n"
                "    last = [n for n in graph.nodes if n.op == 'call_function'][-1]\n"
                "    last.replace_all_uses_with(last.args[0])\n"
                "    graph.erase_node(last)\n"
                "    raise ValueError('half way')",
                "ValueError: half way",
                5,
            ),
            (
                "def tidy(graph):\n"
                "    nodes = [n for n in graph.nodes if n.op == 'call_function']\n"
                "    nodes[-1].append(nodes[0])",
                "used before it has been defined",
                None,
            ),
        ],
    )
    def test_one_that_fails_leaves_the_graph_as_it_was(
        self,
        installed: Installer,
        record_here: Recorder,
        caplog: pytest.LogCaptureFixture,
        source: str,
        says: str,
        line: int | None,
    ) -> None:
        installed("compdbg.passes", {"tidy": "my_pass:tidy"}, my_pass=source)
        run, _ = self.served(record_here, "tidy")
        errors = [p.error for p in run.passes if p.name == "tidy" and p.error]
        assert errors
        assert all(says in error for error in errors)
        assert not any(p.changed for p in run.passes if p.name == "tidy")
        (record,) = {each.getMessage() for each in caplog.records if "tidy" in each.getMessage()}
        assert record.startswith("the pass 'tidy' of someones-package failed and is left out: ")
        assert "\n" not in record
        (finding,) = [f for f in find_all(run) if f.severity != "info"]
        assert (finding.code, finding.data["keys"]) == ("config-overridden", ["inductor_passes"])
        assert says in finding.title
        assert (finding.where and finding.where.line) == line

    def test_a_name_that_nobody_offers(self, installed: Installer) -> None:
        installed("compdbg.passes", {"tidy": "my_pass:tidy"}, my_pass="")
        config = CompilationConfig(inductor_passes=["tidi"], disable_cache=True)
        says = r"no package offers a pass 'tidi'; did you mean 'tidy'\?"
        with use_config(config), pytest.raises(ConfigError, match=says):
            AddsZero()(torch.ones(2))


def test_health_as_json_names_a_hook_of_another_package(
    installed: Installer, record_here: Recorder, capsys: pytest.CaptureFixture[str]
) -> None:
    installed("compdbg.hooks", {"mine": "my_hook:HOOK"}, my_hook="1 / 0")
    with record_here() as run:
        pass
    assert main(["show", str(run.path), "health", "--json"]) == 0
    rows = {row["hook"]: row["state"] for row in json.loads(capsys.readouterr().out)["items"]}
    assert rows["mine"] == "absent"
