"""Fusions that are configured and never run: who switched them off; and the twins that stay silent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch._inductor.config as inductor  # noqa: E402
import torch._inductor.pattern_matcher as pm  # noqa: E402
from torch import Tensor  # noqa: E402
from torch._inductor.custom_graph_pass import CustomGraphPass  # noqa: E402

from compdbg.model.run import Run  # noqa: E402
from tests.integration.fusion_programs import W, X, alarms, findings, ops, rms_round  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::UserWarning:torch")]
Recorder = Callable[..., AbstractContextManager[Any]]
SLOTS = (
    "pre_grad_custom_pass", "joint_custom_pre_pass", "joint_custom_post_pass",
    "post_grad_custom_pre_pass", "post_grad_custom_post_pass",
)  # fmt: skip


@pytest.fixture(autouse=True)
def no_caches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with inductor.patch(fx_graph_cache=False), torch._functorch.config.patch(enable_autograd_cache=False):
        yield


def step(x: Tensor, w: Tensor) -> Tensor:
    return ops.rms(x, w, 1e-5).round()


def inputs() -> tuple[Tensor, Tensor]:
    return torch.randn(5, 4), torch.randn(4)


def fusion_pass(name: str = "RMSRound") -> pm.PatternMatcherPass:
    """Replaces what it matches by a custom op, so that Inductor has no C++ to compile."""
    made = pm.PatternMatcherPass(pass_name=name)
    pm.register_replacement(rms_round, lambda x, w: ops.rms(x, w, 1e-3), [X, W], pm.fwd_only, made)
    return made


def calling(made: pm.PatternMatcherPass) -> Callable[[Any], Any]:
    """As most scripts do it: a function that applies the pass."""
    return lambda graph: made.apply(graph) if graph is not None else None


class FusionPass(CustomGraphPass):
    def __init__(self) -> None:
        self.patterns = fusion_pass("rms_round")

    def __call__(self, graph: Any) -> None:
        self.patterns.apply(graph)

    def uuid(self) -> str:
        return "fusion pass of the tests"


def not_run(run: Run) -> dict[str, Any]:
    (finding,) = findings(run, "fusion-not-run")
    assert alarms(run).count("fusion-not-run") == len([a for a in alarms(run) if a.startswith("fusion")])
    return {**finding.data, "title": finding.title, "where": finding.where}


class TestBackend:
    @pytest.mark.parametrize("slot", SLOTS)
    @pytest.mark.parametrize("backend", ["eager", "aot_eager"])
    def test_only_inductor_runs_it(self, record_here: Recorder, slot: str, backend: str) -> None:
        made = fusion_pass()
        with record_here() as run, inductor.patch({slot: calling(made)}):
            torch.compile(step, backend=backend)(*inputs())
        told = not_run(run)
        assert told["pass"] == "RMSRound"
        assert f"went to backend '{backend}', and only Inductor runs {slot}" in told["title"]
        (row,) = run.fusion
        assert (row.pass_, row.outcome, row.pattern, row.matched) == ("RMSRound", "not-run", None, 0)

    def test_a_pass_object_is_named_by_its_class(self, record_here: Recorder) -> None:
        with record_here() as run, inductor.patch(post_grad_custom_post_pass=FusionPass()):
            torch.compile(step, backend="aot_eager")(*inputs())
        assert not_run(run)["pass"] == "FusionPass"
        assert next(iter(run.fusion)).pass_aliases == ["rms_round"]

    def test_a_custom_pass_without_patterns(self, record_here: Recorder) -> None:
        def tidy_up(graph: Any) -> None:
            pass

        with record_here() as run, inductor.patch(joint_custom_pre_pass=tidy_up):
            torch.compile(step, backend="eager")(*inputs())
        assert "tidy_up" in not_run(run)["pass"]

    def test_run_by_another_compile(self, record_here: Recorder) -> None:
        """Eager for comparison, and Inductor for real: nothing is wrong."""
        made = fusion_pass()
        with record_here() as run, inductor.patch(post_grad_custom_post_pass=calling(made)):
            torch.compile(step, backend="eager")(*inputs())
            torch._dynamo.reset()
            torch.compile(step)(*inputs())
        assert not alarms(run)
        assert run.fusion["RMSRound"].outcome == "fired"

    def test_a_failed_compile_is_not_its_business(self, record_here: Recorder) -> None:
        def backend(gm: Any, example_inputs: Any) -> Any:
            raise RuntimeError("no")

        made = fusion_pass()
        with (
            record_here() as run,
            inductor.patch(post_grad_custom_post_pass=calling(made)),
            pytest.raises(Exception, match="no"),
        ):
            torch.compile(step, backend=backend)(*inputs())
        assert not findings(run, "fusion-not-run")

    def test_nothing_compiled_is_not_its_business(self, record_here: Recorder) -> None:
        made = fusion_pass()
        with record_here() as run, inductor.patch(post_grad_custom_post_pass=calling(made)):
            step(*inputs())
        assert not findings(run, "fusion-not-run")


class TestSwitchedOff:
    def test_by_the_list_of_disabled_passes(self, record_here: Recorder) -> None:
        made = fusion_pass()
        with (
            record_here() as run,
            inductor.patch(
                post_grad_custom_post_pass=calling(made),
                disabled_passes="post_grad_custom_post_pass",
            ),
        ):
            torch.compile(lambda x, w: ops.rms(x, w, 1e-5))(*inputs())
        assert "config.disabled_passes='post_grad_custom_post_pass'" in not_run(run)["title"]

    def test_pattern_matching_off_does_not_touch_a_pass_of_ones_own(self, record_here: Recorder) -> None:
        made = fusion_pass()
        with (
            record_here() as run,
            inductor.patch(post_grad_custom_post_pass=calling(made), pattern_matcher=False),
        ):
            torch.compile(step)(*inputs())
        assert run.fusion["RMSRound"].outcome == "fired"
        assert not alarms(run)

    @pytest.mark.parametrize("on", [True, False])
    def test_pattern_matching_off_for_a_pattern_in_torchs_own_pass(
        self, record_here: Recorder, on: bool
    ) -> None:
        from torch._inductor.fx_passes.post_grad import pass_patterns

        torchs = pass_patterns[1]
        before = {key: list(entries) for key, entries in torchs.patterns.items()}
        try:
            with record_here() as run, inductor.patch(pattern_matcher=on):
                pm.register_replacement(
                    rms_round, lambda x, w: ops.rms(x, w, 1e-3), [X, W], pm.fwd_only, torchs
                )
                torch.compile(lambda x, w: ops.rms(x, w, 1e-5))(*inputs())
        finally:
            torchs.patterns.clear()
            torchs.patterns.update(before)
            torchs.seen_patterns.clear()
        found = findings(run, "fusion-not-run")
        assert [("pattern_matcher is False" in f.title) for f in found] == ([] if on else [True])


class TestNotInEffect:
    def test_the_setting_ended_before_the_first_call(self, record_here: Recorder) -> None:
        made = fusion_pass()
        with record_here() as run:
            with inductor.patch(post_grad_custom_post_pass=calling(made)):
                compiled = torch.compile(step, backend="aot_eager")
            compiled(*inputs())
        assert "compiling happens at the first call, not in torch.compile()" in not_run(run)["title"]

    def test_set_after_everything_was_compiled(self, record_here: Recorder) -> None:
        made = fusion_pass()
        with record_here() as run:
            compiled = torch.compile(step, backend="aot_eager")
            compiled(*inputs())
            with inductor.patch(post_grad_custom_post_pass=calling(made)):
                compiled(*inputs())
        assert "was set after everything had been compiled" in not_run(run)["title"]

    def test_set_for_good_and_not_by_a_patch(self, record_here: Recorder) -> None:
        made = fusion_pass()
        with record_here() as run:
            compiled = torch.compile(step, backend="aot_eager")
            compiled(*inputs())
            before = inductor.post_grad_custom_post_pass
            try:
                inductor.post_grad_custom_post_pass = calling(made)
                compiled(*inputs())
            finally:
                inductor.post_grad_custom_post_pass = before
        assert "was set after everything had been compiled" in not_run(run)["title"]

    def test_a_library_that_sets_and_takes_back_is_silent(
        self, record_here: Recorder, tmp_path: Path
    ) -> None:
        made = fusion_pass()
        library = tmp_path / "site-packages" / "library.py"
        names: dict[str, Any] = {"inductor": inductor, "made": made}
        source = "with inductor.patch(post_grad_custom_post_pass=made.apply): pass"
        with record_here() as run:
            torch.compile(step, backend="aot_eager")(*inputs())
            exec(compile(source, str(library), "exec"), names)
        assert not findings(run, "fusion-not-run")


class TestSilent:
    def test_patterns_that_nothing_enables(self, record_here: Recorder) -> None:
        with record_here() as run:
            made = fusion_pass()
            torch.compile(step, backend="aot_eager")(*inputs())
        assert made.patterns
        assert not findings(run, "fusion-not-run")
        assert "RMSRound" not in run.fusion

    def test_a_manager_that_picks_among_its_passes(self, record_here: Recorder) -> None:
        class Manager(CustomGraphPass):
            def __init__(self) -> None:
                self.passes = {"on": FusionPass(), "off": fusion_pass("Off")}

            def __call__(self, graph: Any) -> None:
                self.passes["on"](graph)

            def uuid(self) -> str:
                return "manager"

        with record_here() as run, inductor.patch(post_grad_custom_post_pass=Manager()):
            torch.compile(step)(*inputs())
        assert not alarms(run)
        assert run.fusion["FusionPass"].outcome == "fired"
        assert run.fusion["Off"].outcome == "not-run"
        assert run.fusion["Off"].rows[0].why == "Manager ran, and did not apply it"

    def test_options_of_the_request(self, record_here: Recorder) -> None:
        made = fusion_pass()
        with record_here() as run:
            options = {"post_grad_custom_post_pass": made.apply}
            torch.compile(step, options=options)(*inputs())
        assert not alarms(run)
        assert run.fusion["RMSRound"].matched == 1


class TestCached:
    @pytest.mark.parametrize("bundled", [True, False], ids=["aot", "fx"])
    def test_served_from_a_cache(
        self, record_here: Recorder, bundled: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The second compile finds the first one's artifact: its passes are not observed, and not missing."""
        custom = FusionPass()
        with (
            inductor.patch(fx_graph_cache=True, post_grad_custom_post_pass=custom),
            torch._functorch.config.patch(enable_autograd_cache=bundled),
        ):
            torch.compile(step)(*inputs())
            torch._dynamo.reset()
            with record_here() as run:
                torch.compile(step)(*inputs())
        assert not findings(run, "fusion-not-run")
        assert run.fusion["FusionPass"].outcome == "cached"
        assert run.fusion["FusionPass"].matched is None, "unknown, and never 0"
        assert "not observed" in run.fusion["FusionPass"].rows[0].why

    @pytest.mark.parametrize(
        ("eps", "matched", "left"),
        [(1e-5, 1, 0), pytest.param(1e-6, 0, 1, marks=pytest.mark.slow)],
        ids=["fired", "missed"],
    )
    def test_the_run_that_filled_the_cache_is_shown(
        self, record_here: Recorder, eps: float, matched: int, left: int
    ) -> None:
        def normalised(x: Tensor, w: Tensor) -> Tensor:
            return ops.rms(ops.rms(x, w, eps).round(), w, 1e-3)

        custom = FusionPass()
        with inductor.patch(fx_graph_cache=True, post_grad_custom_post_pass=custom):
            with record_here() as cold:
                torch.compile(normalised)(*inputs())
            torch._dynamo.reset()
            with record_here() as warm:
                torch.compile(normalised)(*inputs())
        assert cold.fusion["FusionPass"].outcome == ("fired" if matched else "missed")
        (row,) = warm.fusion["FusionPass"].rows
        assert (row.outcome, row.matched, row.sites_left) == ("cached", matched, left)
        assert f"run {cold.path.name}, which filled it" in row.why
        assert row.reason == (None if matched else "arg-mismatch")
        assert not alarms(warm)
