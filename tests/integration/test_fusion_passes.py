"""Which passes are watched, what they are called, and that watching them changes nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import msgspec
import pytest

torch = pytest.importorskip("torch")

import torch._inductor.pattern_matcher as pm  # noqa: E402
from torch import Tensor  # noqa: E402
from torch._inductor.custom_graph_pass import CustomGraphPass  # noqa: E402

from compdbg.events import HookError, MatchAttempt, PatternPass, PatternPassMade  # noqa: E402
from tests.integration.fusion_programs import (  # noqa: E402
    W,
    X,
    a_pass,
    add_pattern,
    alarms,
    findings,
    graph_of,
    ops,
    rms_pass,
    rms_round,
)

pytestmark = pytest.mark.torch
Recorder = Callable[..., AbstractContextManager[Any]]


class FusionBase(CustomGraphPass):
    """A base class that makes the pass for what derives from it."""

    def __init__(self, pass_name: str) -> None:
        self.pm_pass = pm.PatternMatcherPass(pass_name=pass_name)
        for eps in (1e-5, 1e-6):
            Pattern(eps).register(self.pm_pass)

    def __call__(self, graph: Any) -> None:
        self.pm_pass.apply(graph)

    def uuid(self) -> str:
        return "base"


class DerivedFusion(FusionBase):
    def __init__(self) -> None:
        super().__init__("derived")


class Composed:
    """Holds a pass that is not its own."""

    def __init__(self) -> None:
        self.inner = DerivedFusion()


class Pattern:
    def __init__(self, epsilon: float) -> None:
        self.epsilon = epsilon
        self.kind = "rms"

    def register(self, into: pm.PatternMatcherPass) -> None:
        def pattern(x: Tensor, w: Tensor) -> Tensor:
            return ops.rms(x, w, self.epsilon).round()

        add_pattern(into, pattern, [X, W])


class RMSRoundFusionPass(CustomGraphPass):
    """As in vLLM: an object with its patterns in an attribute, applied inside `__call__`."""

    def __init__(self) -> None:
        self.patterns = rms_pass("rms_round_fusion")

    def __call__(self, graph: Any) -> None:
        self.matched_count = self.patterns.apply(graph)

    def uuid(self) -> str:
        return "1"


class TestNames:
    def test_the_class_of_the_pass_is_its_name(self, record_here: Recorder) -> None:
        with record_here() as run:
            RMSRoundFusionPass()(graph_of(rms_round, X, W).graph)
        whole = run.fusion["RMSRoundFusionPass"]
        assert whole is run.fusion["rms_round_fusion"]
        assert (whole.name, whole.aliases, whole.matched) == ("RMSRoundFusionPass", ["rms_round_fusion"], 1)

    def test_a_manager_of_several_passes_is_not_their_name(self, record_here: Recorder) -> None:
        class Manager(CustomGraphPass):
            def __init__(self) -> None:
                self.passes = [RMSRoundFusionPass(), rms_pass("second")]

            def __call__(self, graph: Any) -> None:
                self.passes[0](graph)
                self.passes[1].apply(graph)

            def uuid(self) -> str:
                return "2"

        class Pair:
            def __init__(self) -> None:
                self.one, self.two = rms_pass("one"), rms_pass("two")

            def run(self, graph: Any) -> None:
                self.one.apply(graph)
                self.two.apply(graph)

        graph = graph_of(rms_round, X, W).graph
        with record_here() as run:
            Pair().run(graph)
            Manager()(graph)
        assert {"one", "two", "RMSRoundFusionPass"} <= {p.name for p in run.fusion.passes}

    @pytest.mark.parametrize("make", [DerivedFusion, lambda: Composed().inner], ids=["itself", "composed"])
    def test_the_deriving_class_and_not_its_base(self, record_here: Recorder, make: Any) -> None:
        with record_here() as run:
            make()(graph_of(rms_round, X, W).graph)
        whole = run.fusion["DerivedFusion"]
        assert (whole.aliases, whole.matched) == (["derived"], 1)
        assert {r.pattern: r.outcome for r in whole.rows} == {
            "Pattern.register.pattern(epsilon=1e-05)": "fired",
            "Pattern.register.pattern(epsilon=1e-06)": "superseded",
        }

    def test_a_class_derived_from_the_matcher_pass(self, record_here: Recorder) -> None:
        class MyFusion(pm.PatternMatcherPass):
            pass

        with record_here() as run:
            made = MyFusion(pass_name="mine")
            add_pattern(made, rms_round, [X, W])
            made.apply(graph_of(rms_round, X, W))
        assert run.fusion["MyFusion"].aliases == ["mine"]

    def test_a_pass_without_any_name_is_named_by_its_line(self, record_here: Recorder) -> None:
        with record_here() as run:
            made = pm.PatternMatcherPass()
            add_pattern(made, rms_round, [X, W])
            made.apply(graph_of(rms_round, X, W))
        (whole,) = run.fusion.passes
        assert whole.name.startswith("unnamed pass (test_fusion_passes.py:")

    def test_patterns_from_methods(self, record_here: Recorder) -> None:
        class Norms:
            def pattern(self, x: Tensor, w: Tensor) -> Tensor:
                return ops.rms(x, w, 1e-5).round()

        with record_here() as run:
            a_pass(Norms().pattern, [X, W]).apply(graph_of(rms_round, X, W))
        (row,) = run.fusion
        assert row.pattern == "TestNames.test_patterns_from_methods.Norms.pattern"


class TestWhichPassesAreWatched:
    def test_a_pass_made_before_recording_began(self, record_here: Recorder) -> None:
        made = rms_pass("Early")
        with record_here() as run:
            made.apply(graph_of(lambda x, w: ops.rms(x, w, 1e-6).round(), X, W))
        assert run.fusion["Early"].rows[0].reason == "arg-mismatch"

    def test_a_pass_recorded_a_second_time(self, record_here: Recorder) -> None:
        """The second recording knows nothing of the first: patterns are told again."""
        made = rms_pass("Twice")
        for _ in range(2):
            with record_here() as run:
                made.apply(graph_of(rms_round, X, W))
            assert [(r.pattern, r.outcome) for r in run.fusion] == [("rms_round", "fired")]

    def test_a_pass_without_patterns(self, record_here: Recorder) -> None:
        with record_here() as run:
            pm.PatternMatcherPass(pass_name="Empty").apply(graph_of(rms_round, X, W))
        assert not list(run.fusion)
        assert not alarms(run)

    def test_a_pattern_put_into_torchs_own_pass(self, record_here: Recorder) -> None:
        from torch._inductor.fx_passes.post_grad import pass_patterns

        torchs = pass_patterns[2]
        before = {key: list(entries) for key, entries in torchs.patterns.items()}
        try:
            with record_here() as run:
                pm.register_graph_pattern(
                    pm.CallFunction(
                        torch.ops.aten.round.default,
                        pm.CallFunction(ops.rms.default, pm.Arg(), pm.Arg(), 1e-5),
                    ),
                    pass_dict=torchs,
                )(lambda match, *args: None)
                torchs.apply(graph_of(lambda x, w: ops.rms(x, w, 1e-6).round(), X, W))
        finally:
            torchs.patterns.clear()
            torchs.patterns.update(before)
        mine = [r for r in run.fusion if r.pattern is not None]
        assert [(r.outcome, r.reason) for r in mine] == [("missed", "arg-mismatch")]

    def test_torchs_own_patterns_are_counted(self, record_here: Recorder) -> None:
        with record_here() as run:
            self.own_pass().apply(graph_of(lambda x: x.cos().relu(), X))
        (event,) = [e for _, e in run.load().log.of(PatternPass)]
        assert (event.custom, event.traced, event.attempted, event.matched) == (False, False, 1, 0)
        assert not run.load().log.of(MatchAttempt)
        (row,) = run.fusion
        assert (row.custom, row.pattern, row.outcome, row.attempted) == (False, None, "unobservable", 1)
        assert not alarms(run)

    def test_torchs_own_attempts_on_demand(self, record_here: Recorder) -> None:
        with record_here(inductor_patterns=True) as run:
            self.own_pass().apply(graph_of(lambda x: x.cos().relu(), X))
        (row,) = run.fusion
        assert (row.custom, row.outcome, row.candidates) == (False, "no-candidate", 1)
        assert not findings(run, "fusion-no-candidate")

    def own_pass(self) -> pm.PatternMatcherPass:
        """A pass as torch makes it: the code that does so says that it lies in torch."""
        source = (
            "made = pm.PatternMatcherPass(pass_name='own')\n"
            "aten = torch.ops.aten\n"
            "def handler(match, *args): pass\n"
            "pm.register_graph_pattern(pm.CallFunction(aten.relu.default, "
            "pm.CallFunction(aten.sin.default, pm.Arg())), pass_dict=made)(handler)\n"
        )
        names: dict[str, Any] = {"pm": pm, "torch": torch}
        exec(compile(source, f"{torch.__path__[0]}/_inductor/fx_passes/own.py", "exec"), names)
        return names["made"]  # type: ignore[no-any-return]


class TestNothingChanges:
    def test_graph_counters_and_guards(self, record_here: Recorder) -> None:
        from torch._dynamo.utils import counters

        def run_once() -> tuple[str, int, list[Any]]:
            counters.clear()
            graph = graph_of(lambda x, w: ops.rms(ops.rms(x, w, 1e-5).round(), w, 1e-6).round(), X, W)
            count = rms_pass().apply(graph)
            metas = [sorted(n.meta) for n in graph.graph.nodes]
            return str(graph.graph), count, [dict(counters["inductor"]), metas]

        plain = run_once()
        with record_here():
            watched = run_once()
        assert watched == plain

    def test_checks_are_given_back(self, record_here: Recorder) -> None:
        made = rms_pass()
        (entry,) = next(iter(made.patterns.values()))
        check = entry.extra_check
        with record_here():
            made.apply(graph_of(rms_round, X, W))
            assert entry.extra_check.__name__ == "check_fn"
        assert entry.extra_check is check

    def test_a_check_that_raises_raises(self, record_here: Recorder) -> None:
        def broken(match: pm.Match) -> bool:
            raise ValueError("mine")

        with record_here() as run, pytest.raises(ValueError, match="mine"):
            rms_pass(extra_check=broken).apply(graph_of(rms_round, X, W))
        assert not run.load().log.of(HookError)

    def test_nothing_is_kept_alive(self, record_here: Recorder) -> None:
        import gc
        import weakref

        with record_here():
            made, graph = rms_pass(), graph_of(rms_round, X, W)
            made.apply(graph)
            alive = [weakref.ref(made), weakref.ref(graph), weakref.ref(graph.graph)]
            del made, graph
            gc.collect()
            assert [ref() for ref in alive] == [None, None, None]

    def test_two_threads_at_once(self, record_here: Recorder) -> None:
        """With graph patterns: torch itself can't trace in two threads, as a retrace would."""
        aten = torch.ops.aten
        graphs = [
            [graph_of(lambda x: x.sin().relu(), X) for _ in range(10)],
            [graph_of(lambda x: x.sin().exp().relu(), X) for _ in range(10)],
        ]

        def work(n: int) -> None:
            made = pm.PatternMatcherPass(pass_name=f"Thread{n}")
            pattern = pm.CallFunction(aten.relu.default, pm.CallFunction(aten.sin.default, pm.Arg()))
            pm.register_graph_pattern(pattern, pass_dict=made)(lambda match, x: None)
            for graph in graphs[n]:
                made.apply(graph)

        with record_here() as run:
            threads = [threading.Thread(target=work, args=(n,)) for n in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert (run.fusion["Thread0"].matched, run.fusion["Thread0"].outcome) == (10, "fired")
        assert (run.fusion["Thread1"].matched, run.fusion["Thread1"].rows[0].sites_left) == (0, 10)
        assert not run.load().log.of(HookError)

    def test_a_pass_applied_inside_a_handler(self, record_here: Recorder) -> None:
        aten = torch.ops.aten
        with record_here() as run:
            inner = rms_pass("Inner")
            outer = pm.PatternMatcherPass(pass_name="Outer")
            pattern = pm.CallFunction(aten.relu.default, pm.CallFunction(aten.sin.default, pm.Arg()))
            pm.register_graph_pattern(pattern, pass_dict=outer)(
                lambda match, x: inner.apply(graph_of(rms_round, X, W))
            )
            outer.apply(graph_of(lambda x: x.sin().relu(), X))
        assert run.fusion["Outer"].matched == 1
        assert run.fusion["Inner"].matched == 1

    def test_a_match_of_the_users_own_is_no_attempt(self, record_here: Recorder) -> None:
        pattern = pm.CallFunction(torch.ops.aten.relu.default, pm.Arg())
        graph = graph_of(lambda x: x.relu(), X)
        with record_here() as run:
            assert pattern.match(next(n for n in graph.graph.nodes if n.op == "call_function"))
        assert not run.load().log.of(MatchAttempt)


def test_a_custom_pass_says_where_it_was_made(record_here: Recorder) -> None:
    with record_here() as run:
        rms_pass("Mine")
    (made,) = [e for _, e in run.load().log.of(PatternPassMade)]
    assert made.pass_name == "Mine"
    assert made.where is not None and made.where.function == "a_pass"


def test_rows_have_the_keys_that_scripts_rely_on(record_here: Recorder) -> None:
    with record_here() as run:
        rms_pass().apply(graph_of(lambda x, w: ops.rms(x, w, 1e-6).round(), X, W))
    (row,) = msgspec.to_builtins(run.fusion.rows)
    assert {
        "pass", "pass_aliases", "pattern", "graph", "enabled", "outcome", "matched", "attempted",
        "candidates", "sites_left", "near_miss", "duration_us",
    } <= set(row)  # fmt: skip
    assert set(row["near_miss"]) == {
        "reason", "stage", "node", "wanted", "found", "matched_nodes", "pattern_nodes", "where", "detail",
    }  # fmt: skip
    assert row["duration_us"] > 0
