"""Each pass over each graph: its name, what it changed, what is inside it; and the graphs' names."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
import torch

import compdbg
from compdbg.events import CudagraphSkip, GeneratedCode, HookError, PassRun
from compdbg.findings.collect import find_all
from compdbg.hooks.graphtext import fingerprint, graph_text
from compdbg.hooks.passrun import UNOBSERVED, observed, same_graph
from compdbg.model.passes import Pass
from compdbg.model.run import Run
from compdbg.views.all import VIEWS
from compdbg.views.base import Source
from tests.integration.graphs_here import calls, functional, lower, passing

# torch's own modules warn of deprecated parts of torch when they are imported.
pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore::DeprecationWarning:torch"),
    pytest.mark.filterwarnings("ignore:dynamo_pgo force disabled"),
]
aten = torch.ops.aten


def add_relu(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (x + y).relu()


def relu_to_sigmoid(graph: Any) -> None:
    for node in calls(graph.owning_module, "aten.relu"):
        node.target = aten.sigmoid.default


def nothing(graph: Any) -> None:
    pass


def swap_operands(graph: Any) -> None:
    (node,) = calls(graph.owning_module, "aten.add")
    node.args = node.args[::-1]


def fails(graph: Any) -> None:
    raise ValueError("no such op")


@pytest.fixture
def here(record_here: Any) -> Iterator[Callable[..., list[Pass]]]:
    """Inductor's passes over `add_relu` with these settings; all rows, and no fault of ours."""

    def run(**config: Any) -> list[Pass]:
        import torch._inductor.config

        gm = functional(add_relu, torch.ones(4), torch.ones(4))
        with record_here() as recording, torch._inductor.config.patch(**config):
            lower(gm)
        loaded: Run = recording.load()
        assert [event for _, event in loaded.log.of(HookError)] == []
        run.last = loaded  # type: ignore[attr-defined]
        return loaded.passes

    yield run


def one(passes: list[Pass], name: str) -> Pass:
    (found,) = [p for p in passes if p.name == name]
    return found


class TestCustomPasses:
    def test_what_a_pass_changed(self, here: Any) -> None:
        row = one(here(post_grad_custom_post_pass=relu_to_sigmoid), "relu_to_sigmoid")
        assert (row.custom, row.changed, row.slot) == (True, True, "post_grad_custom_post_pass")
        assert row.op_delta == {"aten.relu.default": -1, "aten.sigmoid.default": 1}
        before, after = here.last.log.text(row.before), here.last.log.text(row.after)
        assert "aten.relu.default(add)" in before
        assert "aten.sigmoid.default(add)" in after
        assert row.where is not None
        assert row.where.function == "relu_to_sigmoid"

    def test_a_pass_that_changes_nothing_has_no_texts(self, here: Any) -> None:
        row = one(here(post_grad_custom_post_pass=nothing), "nothing")
        assert (row.changed, row.op_delta, row.before, row.after) == (False, {}, None, None)

    def test_a_change_that_leaves_the_ops_as_they_were(self, here: Any) -> None:
        row = one(here(post_grad_custom_post_pass=swap_operands), "swap_operands")
        assert (row.changed, row.op_delta) == (True, {})
        assert row.before != row.after

    @pytest.mark.parametrize(
        "slot", ["joint_custom_pre_pass", "joint_custom_post_pass", "post_grad_custom_pre_pass"]
    )
    def test_each_slot(self, here: Any, slot: str) -> None:
        row = one(here(**{slot: relu_to_sigmoid}), "relu_to_sigmoid")
        assert (row.slot, row.custom, row.changed) == (slot, True, True)

    def test_a_pass_object_has_the_name_of_its_class(self, here: Any) -> None:
        from torch._inductor.custom_graph_pass import CustomGraphPass

        class ToSigmoid(CustomGraphPass):
            def __call__(self, graph: Any) -> None:
                relu_to_sigmoid(graph)

            def uuid(self) -> str:
                return "1"

        assert one(here(post_grad_custom_post_pass=ToSigmoid()), "ToSigmoid").changed

    def test_a_lambda_has_the_name_of_its_slot(self, here: Any) -> None:
        row = one(here(post_grad_custom_post_pass=lambda g: g.lint()), "post_grad_custom_post_pass")
        assert row.custom
        assert row.where is not None
        assert row.where.file == __file__

    def test_a_partial_has_the_name_of_its_function(self, here: Any) -> None:
        assert one(here(post_grad_custom_post_pass=functools.partial(relu_to_sigmoid)), "relu_to_sigmoid")

    def test_passes_inside_a_pass(self, here: Any) -> None:
        from torch._inductor.pattern_matcher import (
            CallFunction,
            Ignored,
            PatternMatcherPass,
            register_graph_pattern,
        )

        patterns = PatternMatcherPass(pass_name="my_patterns")

        @register_graph_pattern(CallFunction(aten.relu.default, Ignored()), pass_dict=patterns)  # type: ignore[arg-type]
        def to_sigmoid(match: Any, *args: Any) -> None:
            (node,) = match.nodes
            node.target = aten.sigmoid.default

        def manager(graph: Any) -> None:
            with observed(graph, "first"):
                patterns.apply(graph)
            with observed(graph, "second"):
                nothing(graph)

        passes = here(post_grad_custom_post_pass=manager)
        outer, first, inner, second = (one(passes, n) for n in ("manager", "first", "my_patterns", "second"))
        assert (first.within, inner.within, second.within) == (outer.index, first.index, outer.index)
        assert [p.changed for p in (outer, first, inner, second)] == [True, True, True, False]
        assert inner.custom
        assert outer.duration_us >= first.duration_us >= inner.duration_us

    def test_a_pass_that_raises(self, here: Any) -> None:
        import torch._inductor.config

        with pytest.raises(ValueError, match="no such op"):
            here(post_grad_custom_post_pass=fails)
        assert torch._inductor.config.post_grad_custom_post_pass is None


class TestInductorsPasses:
    def test_all_of_them_are_there(self, here: Any) -> None:
        names = [p.name for p in here()]
        for expected in ("remove_noop_ops", "pass_pattern_0", "stable_sort", "decompose_auto_functionalized"):
            assert expected in names

    def test_a_disabled_pass_says_by_whom(self, here: Any) -> None:
        row = one(here(disabled_passes="stable_sort"), "stable_sort")
        assert row.disabled_by == "torch._inductor.config.disabled_passes = 'stable_sort'"
        assert not row.changed

    def test_torchs_own_pass_in_a_users_slot_is_not_the_users(self, here: Any) -> None:
        assert not any(p.custom for p in here())

    def test_what_changes_between_passes_is_nobodys(self, record_here: Any) -> None:
        gm = functional(add_relu, torch.ones(4), torch.ones(4))
        with record_here() as run, same_graph():
            with passing(gm, "a"):
                pass
            relu_to_sigmoid(gm.graph)
            with passing(gm, "b"):
                pass
        rows = [event for _, event in run.load().log.of(PassRun)]
        assert [(p.pass_name, p.changed) for p in rows] == [("a", False), (UNOBSERVED, True), ("b", False)]


class TestGraphText:
    def test_a_line_for_each_node_with_its_type_and_the_users_line(self) -> None:
        gm = functional(add_relu, torch.ones(4), torch.ones(4))
        text = graph_text(gm.graph)
        assert 'arg0_1: "f32[4][1]cpu",' in text
        assert 'add: "f32[4][1]cpu" = aten.add.Tensor(arg0_1, arg1_1)' in text
        assert "in add_relu: return (x + y).relu()" in text
        assert "return (relu,)" in text

    def test_subgraphs_are_there_too(self) -> None:
        def branches(x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))

        text = graph_text(functional(branches, torch.ones(4)).graph)
        assert "# subgraph true_graph_0" in text
        assert "aten.sin.default" in text

    def test_a_fingerprint_changes_with_order_targets_and_arguments(self) -> None:
        gm = functional(add_relu, torch.ones(4), torch.ones(4))
        seen = [fingerprint(gm.graph)]
        for change in (nothing, swap_operands, relu_to_sigmoid):
            change(gm.graph)
            seen.append(fingerprint(gm.graph))
        assert seen[0] == seen[1]
        assert len(set(seen)) == 3


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A training step through all of Inductor: joint, forward and backward graph; no kernel to compile."""
    import torch._inductor.config

    torch._dynamo.reset()
    x, w = torch.ones(4, 8), torch.ones(8, 8, requires_grad=True)
    folder = tmp_path_factory.mktemp("passes") / "run"
    with (
        warnings.catch_warnings(action="ignore"),
        compdbg.record(folder) as recording,
        torch._inductor.config.patch(force_disable_caches=True),
    ):
        compiled = torch.compile(lambda x, w: x @ w)
        compiled(x, w).backward(torch.ones(4, 8))
    torch._dynamo.reset()
    return recording.load()


class TestATrainingStep:
    def test_the_graphs_have_names_and_stages(self, trained: Run) -> None:
        assert [(g.graph, g.stage) for g in trained.graphs] == [
            ("0/0", "dynamo"),
            ("0/0 joint", "aot-joint"),
            ("0/0", "aot-forward"),
            ("0/0 backward", "aot-backward"),
            ("0/0", "post-grad"),
            ("0/0 backward", "post-grad"),
            ("0/0", "code"),
            ("0/0 backward", "code"),
        ]

    def test_passes_know_their_graph(self, trained: Run) -> None:
        assert {p.graph for p in trained.passes} == {"0/0 joint", "0/0", "0/0 backward"}
        joint = [p for p in trained.passes if p.graph == "0/0 joint"]
        assert {p.subsystem for p in joint} >= {"joint_graph_passes"}

    def test_the_generated_code(self, trained: Run) -> None:
        forward, backward = (trained.log.text(e.text) or "" for _, e in trained.log.of(GeneratedCode))
        assert "extern_kernels.mm" in forward
        assert "extern_kernels.mm" in backward

    def test_the_view(self, trained: Run) -> None:
        view = VIEWS["passes"](Source(trained, []))
        assert "over 3 graphs" in view.lines[0]
        row = msgspec.to_builtins(view.items[0])
        assert {"pass", "graph", "index", "changed", "op_delta", "duration_us", "before", "after"} <= set(row)


def test_several_graphs_of_one_compile_have_names_of_their_own(record_here: Any) -> None:
    def in_two_pieces(gm: Any, inputs: list[Any]) -> Any:
        from torch._inductor import compile_fx

        first = compile_fx.compile_fx(gm, inputs)
        compile_fx.compile_fx(gm, inputs)
        return first

    import torch._inductor.config

    with record_here() as run, torch.no_grad(), torch._inductor.config.patch(force_disable_caches=True):
        torch.compile(lambda x, w: x @ w, backend=in_two_pieces)(torch.ones(4, 8), torch.ones(8, 8))
    assert {p.graph for p in run.load().passes} == {"0/0", "0/0 #2"}


def test_cuda_graphs_that_torch_skips(record_here: Any) -> None:
    from torch._inductor import cudagraph_utils

    stack = f' Found from : \n   File "{__file__}", line 7, in step\n    x.cuda() + y\n'
    with record_here() as run:
        cudagraph_utils.log_cudagraph_skip_and_bump_counter(
            f"skipping cudagraphs due to skipping cudagraphs due to cpu device (arg0_1).{stack}"
        )
    ((_, skip),) = run.load().log.of(CudagraphSkip)
    assert (skip.reason, skip.graph) == ("cpu device (arg0_1)", None)
    assert skip.where is not None
    assert (skip.where.file, skip.where.line) == (__file__, 7)


def test_asking_for_cuda_graphs_on_a_cpu_is_no_fault(record_here: Any) -> None:
    import torch._inductor.config

    with record_here() as run, torch.no_grad(), torch._inductor.config.patch(force_disable_caches=True):
        torch.compile(lambda x, w: x @ w, mode="reduce-overhead")(torch.ones(4, 8), torch.ones(8, 8))
    assert [f.code for f in find_all(run.load()) if f.severity != "info"] == []
