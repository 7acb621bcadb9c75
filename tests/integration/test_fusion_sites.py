"""Which anchors are sites, which sites are misses, and what the pass as a whole came to."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch._inductor.pattern_matcher as pm  # noqa: E402
from torch import Tensor  # noqa: E402

from tests.integration.fusion_programs import (  # noqa: E402
    W,
    X,
    a_pass,
    add_pattern,
    alarms,
    compiled_with,
    findings,
    graph_of,
    only_row,
    ops,
    rms_pass,
)

pytestmark = pytest.mark.torch
Recorder = Callable[..., AbstractContextManager[Any]]


def eps_variants(*values: float, name: str = "Variants") -> pm.PatternMatcherPass:
    made = pm.PatternMatcherPass(pass_name=name)
    for eps in values:
        add_variant(made, eps)
    return made


def add_variant(made: pm.PatternMatcherPass, eps: float) -> None:
    def pattern(x: Tensor, w: Tensor) -> Tensor:
        return ops.rms(x, w, eps).round()

    add_pattern(made, pattern, [X, W], skip_duplicates=True)


class TestSiblings:
    @pytest.mark.parametrize("registered", [(1e-5, 1e-6), (1e-6, 1e-5)])
    def test_one_of_two_variants_fires(self, record_here: Recorder, registered: tuple[float, ...]) -> None:
        def step(x: Tensor, w: Tensor) -> Tensor:
            for _ in range(4):
                x = ops.rms(x, w, 1e-5).round()
            return x

        with record_here() as run:
            eps_variants(*registered).apply(graph_of(step, X, W))
        whole = run.fusion["Variants"]
        assert (whole.outcome, whole.matched) == ("fired", 4)
        assert {r.pattern: r.outcome for r in whole.rows} == {
            "add_variant.pattern(eps=1e-05)": "fired",
            "add_variant.pattern(eps=1e-06)": "superseded",
        }
        assert not alarms(run)

    def test_neither_variant_fits_one_site(self, record_here: Recorder) -> None:
        def step(x: Tensor, w: Tensor) -> Tensor:
            return ops.rms(ops.rms(x, w, 1e-5).round(), w, 1e-3).round()

        with record_here() as run:
            eps_variants(1e-5, 1e-6).apply(graph_of(step, X, W))
        assert {r.pattern: (r.outcome, r.matched, r.sites_left) for r in run.fusion} == {
            "add_variant.pattern(eps=1e-05)": ("missed", 1, 1),
            "add_variant.pattern(eps=1e-06)": ("missed", 0, 1),
        }
        (finding,) = findings(run, "fusion-missed")
        assert (finding.data["reason"], finding.data["sites"], finding.data["fired"]) == (
            "arg-mismatch",
            1,
            1,
        )
        assert finding.cause.endswith("At 1 site the pass fired.")

    def test_a_longer_pattern_takes_the_site(self, record_here: Recorder) -> None:
        with record_here() as run:
            made = a_pass(lambda x, w: ops.rms(x.sin(), w, 1e-5).round(), [X, W], "Two")
            add_pattern(made, lambda x, w: ops.rms(x, w, 1e-5).round(), [X, W])
            made.apply(graph_of(lambda x, w: ops.rms(x, w, 1e-5).round(), X, W))
        assert [r.outcome for r in run.fusion] == ["fired", "superseded"]
        assert not alarms(run)

    def test_an_anchor_inside_a_siblings_match(self, record_here: Recorder) -> None:
        """The inner `round` is consumed by the longer pattern before it can be tried."""
        with record_here() as run:
            made = a_pass(lambda x, w: ops.rms(x, w, 1e-5).round().relu(), [X, W], "Two")
            add_pattern(made, lambda x, w: ops.rms(x, w, 1e-6).round(), [X, W])
            made.apply(graph_of(lambda x, w: ops.rms(x, w, 1e-5).round().relu(), X, W))
        assert sorted(r.outcome for r in run.fusion) == ["fired", "no-candidate"]
        assert not alarms(run)

    def test_a_later_pass_takes_what_this_one_missed(self, record_here: Recorder) -> None:
        graph = graph_of(lambda x, w: ops.rms(x, w, 1e-6).round(), X, W)
        with record_here() as run:
            eps_variants(1e-5, name="First").apply(graph)
            eps_variants(1e-6, name="Second").apply(graph)
        assert run.fusion["First"].outcome == "superseded"
        assert run.fusion["Second"].outcome == "fired"
        assert not alarms(run)

    @pytest.mark.parametrize("lowered", ["rms", "round"])
    def test_a_later_lowering_of_one_op_takes_nothing_away(self, record_here: Recorder, lowered: str) -> None:
        patterns = {"rms": lambda x, w: ops.rms(x, w, 1e-6), "round": lambda x: x.round()}
        graph = graph_of(lambda x, w: ops.rms(x, w, 1e-6).round(), X, W)
        with record_here() as run:
            eps_variants(1e-5, name="First").apply(graph)
            a_pass(patterns[lowered], [X, W] if lowered == "rms" else [X], "Lowering").apply(graph)
        assert run.fusion["Lowering"].outcome == "fired"
        (finding,) = findings(run, "fusion-missed")
        assert (finding.data["pass"], finding.data["reason"]) == ("First", "arg-mismatch")

    def test_what_is_near_belongs_to_a_match_elsewhere(self, record_here: Recorder) -> None:
        """Both `round`s follow a norm within four hops, but that norm is fused with the first."""

        def layer(x: Tensor, w: Tensor) -> Tensor:
            normal = ops.rms(x, w, 1e-5).round()
            return (normal.sin() * 2).round()

        with record_here() as run:
            rms_pass().apply(graph_of(layer, X, W))
        row = only_row(run, "RMSRound")
        assert (row.outcome, row.matched, row.candidates, row.sites_left) == ("fired", 1, 2, 0)
        assert not alarms(run)

    def test_another_site_between_does_not_hide_a_miss(self, record_here: Recorder) -> None:
        def layer(x: Tensor, w: Tensor) -> Tensor:
            normal = ops.rms(x, w, 1e-5).round()
            return ops.rms(normal, w, 1e-6).sin().round()

        with record_here() as run:
            rms_pass().apply(graph_of(layer, X, W))
        assert only_row(run, "RMSRound").sites_left == 1
        assert findings(run, "fusion-missed")[0].data["reason"] == "target-mismatch"

    def test_duplicates_of_one_name(self, record_here: Recorder) -> None:
        """Two patterns whose functions are called alike and close over nothing are numbered."""
        with record_here() as run:
            made = a_pass(lambda x, w: ops.rms(x, w, 1e-5).round(), [X, W], "Two")
            add_pattern(made, lambda x, w: ops.rms(x, w, 1e-5).floor(), [X, W])
            made.apply(graph_of(lambda x, w: ops.rms(x, w, 1e-5).floor(), X, W))
        prefix = "TestSiblings.test_duplicates_of_one_name.lambda"
        assert {r.pattern: r.outcome for r in run.fusion} == {
            f"{prefix}#1": "no-candidate", f"{prefix}#2": "fired",
        }  # fmt: skip

    def test_entries_that_share_a_pattern_object(self, record_here: Recorder) -> None:
        aten = torch.ops.aten
        with record_here() as run:
            made = pm.PatternMatcherPass(pass_name="Shared")
            pattern = pm.CallFunction(aten.relu.default, pm.CallFunction(aten.sin.default, pm.Arg()))
            for answer in (False, True):

                def handler(match: pm.Match, x: Any) -> None:
                    node = match.output_node()
                    node.replace_all_uses_with(x)
                    match.erase_nodes()

                handler.__qualname__ = f"handler_{answer}"
                pm.register_graph_pattern(pattern, extra_check=lambda m, a=answer: a, pass_dict=made)(handler)
            made.apply(graph_of(lambda x: x.sin().relu(), X))
        assert {r.pattern: (r.outcome, r.reason) for r in run.fusion} == {
            "handler_False": ("superseded", "extra-check"),
            "handler_True": ("fired", None),
        }


class TestSeveralGraphs:
    def test_fires_in_one_and_has_no_candidate_in_another(self, record_here: Recorder) -> None:
        with record_here() as run:
            made = rms_pass()
            made.apply(graph_of(lambda x, w: ops.rms(x, w, 1e-5).round(), X, W))
            made.apply(graph_of(lambda x: x.sin(), X))
        assert run.fusion["RMSRound"].matched == 1
        assert run.fusion["RMSRound"].outcome == "fired"
        assert not findings(run, "fusion-no-candidate")

    def test_a_miss_in_one_of_two_equal_graphs_stays_one(self, record_here: Recorder) -> None:
        """Nodes of one name in two graphs are two sites."""
        with record_here() as run:
            made = rms_pass()
            made.apply(graph_of(lambda x, w: ops.rms(x, w, 1e-6).round(), X, W))
            made.apply(graph_of(lambda x, w: ops.rms(x, w, 1e-5).round(), X, W))
        row = only_row(run, "RMSRound")
        assert (row.outcome, row.matched, row.candidates, row.sites_left) == ("missed", 1, 2, 1)

    def test_forward_and_backward(self, record_here: Recorder) -> None:
        """The backward has the anchor op for a reason of its own: no miss."""
        x = torch.randn(5, 4, requires_grad=True)
        with record_here() as run:
            made = a_pass(lambda x: (x + 1).neg(), [X], "Forward")
            compiled_with(lambda x: (x + 1).neg().sum(), x, passes=[made.apply]).backward()
        assert run.fusion["Forward"].matched == 1
        assert run.fusion["Forward"].outcome == "fired"
        assert not alarms(run)

    def test_applied_twice_to_one_graph(self, record_here: Recorder) -> None:
        graph = graph_of(lambda x, w: ops.rms(ops.rms(x, w, 1e-5).round(), w, 1e-6).round(), X, W)
        with record_here() as run:
            made = rms_pass()
            made.apply(graph)
            made.apply(graph)
        row = only_row(run, "RMSRound")
        assert (row.outcome, row.matched, row.sites_left, row.candidates) == ("missed", 1, 1, 2)
        assert findings(run, "fusion-missed")[0].data["sites"] == 1

    def test_the_second_application_takes_what_the_first_missed(self, record_here: Recorder) -> None:
        graph = graph_of(lambda x, w: ops.rms(x, w, 1e-5).to(torch.float64).round(), X, W)
        with record_here() as run:
            made = rms_pass()
            made.apply(graph)
            cast = next(n for n in graph.graph.nodes if "to_copy" in n.name)
            cast.replace_all_uses_with(cast.args[0])
            graph.graph.erase_node(cast)
            made.apply(graph)
        assert only_row(run, "RMSRound").outcome == "fired"
        assert not alarms(run)


class TestEchoes:
    """A norm written out: of its two multiplications only the last can be the pattern's."""

    @staticmethod
    def norm(x: Tensor, w: Tensor, eps: float) -> Tensor:
        return w * (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps))

    def test_other_anchors_of_a_near_miss_are_no_sites_of_their_own(self, record_here: Recorder) -> None:
        def step(x: Tensor, w: Tensor) -> Tensor:
            h = self.norm(x, w, 1e-5)
            return x + h.sigmoid() * h  # a multiplication that has nothing to do with a norm

        with record_here() as run:
            a_pass(lambda x, w: self.norm(x, w, 1e-6), [X, W], "Norm").apply(graph_of(step, X, W))
        (found,) = findings(run, "fusion-missed")
        assert (found.data["reason"], found.data["sites"]) == ("arg-mismatch", 1)

    def test_a_norm_of_another_form_beside_it_is(self, record_here: Recorder) -> None:
        def step(x: Tensor, w: Tensor) -> Tensor:
            other = x.cos()
            other = w * (other / (other.square().mean(-1, keepdim=True) + 1e-6).sqrt())
            return self.norm(x.sin(), w, 1e-5) - other

        with record_here() as run:
            a_pass(lambda x, w: self.norm(x, w, 1e-6), [X, W], "Norm").apply(graph_of(step, X, W))
        assert {f.data["reason"]: f.data["sites"] for f in findings(run, "fusion-missed")} == {
            "arg-mismatch": 1,
            "target-mismatch": 1,
        }


class TestOutputsBesideTheAnchor:
    """A pattern of two norms, each of a part of one tensor, at graphs that take the parts otherwise."""

    @staticmethod
    def run(record_here: Recorder, layer: Callable[..., Any]) -> Any:
        def two_norms(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
            one, other = x.split([2, 2], dim=0)
            return ops.rms(one, w, 1e-5), ops.rms(other, w, 1e-5)

        with record_here() as run:
            a_pass(two_norms, [X[:4], W], "TwoNorms").apply(graph_of(layer, X[:4], W))
        return run

    def test_slices_in_place_of_the_split(self, record_here: Recorder) -> None:
        def layer(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
            qk = x.sin()
            return ops.rms(qk[:2], w, 1e-5), ops.rms(qk[2:], w, 1e-5)

        run = self.run(record_here, layer)
        (finding,) = findings(run, "fusion-missed")
        assert (finding.data["reason"], finding.data["sites"]) == ("target-mismatch", 2)
        assert "wanted item 0 of aten.split_with_sizes.default, found aten.slice.Tensor" in finding.title

    def test_norms_of_two_values_are_no_pair(self, record_here: Recorder) -> None:
        def layer(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
            return ops.rms(x.sin(), w, 1e-5), ops.rms(x.cos(), w, 1e-5)

        run = self.run(record_here, layer)
        assert run.fusion["TwoNorms"].outcome == "no-candidate"
        assert not alarms(run)


class TestLookedThrough:
    """A pattern anchored on the `getitem` of an op is tried at every `getitem` of the graph."""

    def outputs_pass(self) -> pm.PatternMatcherPass:
        return a_pass(lambda x: ops.scaled(x.sin(), 2.0)[0], [X], "Item")

    def test_getitems_of_other_ops_are_no_sites(self, record_here: Recorder) -> None:
        with record_here() as run:
            self.outputs_pass().apply(graph_of(lambda x: x.sin().split(2)[0] + x.sin().split(2)[1], X))
        row = only_row(run, "Item")
        assert (row.outcome, row.candidates) == ("no-candidate", 0)
        assert row.attempted > 0

    def test_both_items_of_one_op_are_one_site(self, record_here: Recorder) -> None:
        def both(x: Tensor) -> Any:
            y, total = ops.scaled(x.cos(), 3.0)
            return y, total

        with record_here() as run:
            made = a_pass(lambda x: ops.scaled(x.sin(), 2.0)[0].cos(), [X], "Item")
            add_pattern(made, lambda x: ops.scaled(x.sin(), 2.0)[0], [X])
            made.apply(graph_of(both, X))
        assert max(r.candidates for r in run.fusion) == 1

    def test_a_functionalized_op_is_its_op(self, record_here: Recorder) -> None:
        auto = torch.ops.higher_order.auto_functionalized

        def pattern(x: Tensor) -> Tensor:
            return auto(ops.bump.default, x=x.sin())[1].round()

        def other_op(x: Tensor) -> Tensor:
            return auto(ops.bump.default, x=x.cos())[1].round()

        with record_here() as run:
            made = a_pass(pattern, [X], "Functional")
            made.apply(graph_of(pattern, X))
            made.apply(graph_of(other_op, X))
        rows = list(run.fusion)
        assert sum(r.matched for r in rows) == 1
        assert [(r.outcome, r.reason) for r in rows] == [("missed", "target-mismatch")]
        assert rows[0].near_miss is not None
        assert rows[0].near_miss.wanted == "aten.sin.default"


class TestNoCandidate:
    def test_says_what_is_not_there(self, record_here: Recorder) -> None:
        with record_here() as run:
            rms_pass().apply(graph_of(lambda x, w: ops.rms(x, w, 1e-5).floor(), X, W))
        (finding,) = findings(run, "fusion-no-candidate")
        assert finding.severity == "info"
        assert only_row(run, "RMSRound").why == "no aten.round.default in the graph"

    def test_the_ops_that_the_wanted_one_is_made_of(self, record_here: Recorder) -> None:
        def native(x: Tensor, w: Tensor) -> Tensor:
            normal = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * w
            return normal.round()

        with record_here() as run:
            made = rms_pass()
            compiled_with(native, torch.randn(5, 4), torch.randn(4), passes=[made.apply])
        (finding,) = findings(run, "fusion-no-candidate")
        assert finding.severity == "warning"
        assert finding.data["form"] == "decomposed"
        assert finding.data["wanted"] == "fusion_tests.rms.default"
        assert finding.data["found"] == "pow, mean, add, rsqrt, mul, mul"
        assert finding.where is not None and finding.where.line == native.__code__.co_firstlineno + 1

    @pytest.mark.parametrize(
        "alike",
        [
            lambda x, w: (x * torch.rsqrt(w)).mean(-1).round(),
            lambda x, w: (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * w).floor(),
            lambda x, w: (x.pow(2).mean(-1, keepdim=True) + 1e-5).round() * w,
            lambda x, w: (torch.rsqrt(x), w.pow(2).mean() + 1, (x * w * w).round()),
            lambda x, w: ((x.mean(-1, keepdim=True) + 1).pow(2).rsqrt() * x * w).round(),
        ],
        ids=["no-pow", "no-anchor", "no-rsqrt", "not-connected", "wired-otherwise"],
    )
    def test_parts_of_them_are_no_other_form(self, record_here: Recorder, alike: Any) -> None:
        with record_here() as run:
            rms_pass().apply(graph_of(alike, X, W))
        assert not alarms(run)

    @pytest.mark.parametrize("spelling", ["casts", "swapped", "twice"])
    def test_spellings_of_the_same_ops(self, record_here: Recorder, spelling: str) -> None:
        """As models write it: through float32, with the operands in another order, in several layers."""

        def native(x: Tensor, w: Tensor) -> Tensor:
            wide = x.to(torch.float64) if spelling == "casts" else x
            scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
            normal = w * (scale * wide).to(x.dtype) if spelling != "twice" else wide * scale * w
            return normal.round()

        def layers(x: Tensor, w: Tensor) -> Tensor:
            return native(native(x, w).sin(), w) if spelling == "twice" else native(x, w)

        with record_here() as run:
            rms_pass().apply(graph_of(layers, X, W))
        assert findings(run, "fusion-no-candidate")[0].data["form"] == "decomposed"

    @pytest.mark.parametrize("effect", ["prints", "stores", "asks"])
    def test_a_body_with_an_effect_of_its_own_is_not_run(
        self, record_here: Recorder, effect: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """What an op is made of is found by tracing its body, but only where nothing can happen."""
        seen: list[int] = []

        def helper() -> None:
            print("asked")

        def body(x: Tensor, w: Tensor, eps: float) -> Tensor:
            if effect == "prints":
                print("ran")
            elif effect == "stores":
                seen.append(1)
            else:
                helper()
            return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * w

        op = torch.library.custom_op(f"fusion_tests::rms_that_{effect}", body, mutates_args=())
        op.register_fake(lambda x, w, eps: torch.empty_like(x))
        call = getattr(ops, f"rms_that_{effect}")

        def native(x: Tensor, w: Tensor) -> Tensor:
            return (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * w).round()

        with record_here() as run:
            made = a_pass(lambda x, w: call(x, w, 1e-5).round(), [X, W])
            seen.clear()
            capsys.readouterr()  # torch itself runs the op when it traces the pattern
            made.apply(graph_of(native, X, W))
        assert not seen
        assert capsys.readouterr().out == ""
        assert not alarms(run)

    def test_another_overload_of_the_op(self, record_here: Recorder) -> None:
        with record_here() as run:
            made = a_pass(lambda x, y: torch.ops.aten.pow.Tensor_Tensor(x.sin(), y), [X, torch.empty(5, 4)])
            made.apply(graph_of(lambda x: x.sin().pow(3.0), X))
        (finding,) = findings(run, "fusion-no-candidate")
        assert (finding.severity, finding.data["form"]) == ("info", "overload"), "it may mean another thing"

    def test_a_graph_that_is_not_in_aten_ops_yet(self, record_here: Recorder) -> None:
        graph = torch.fx.symbolic_trace(lambda x: torch.relu(x.sin()))
        with record_here() as run:
            a_pass(lambda x: x.sin().relu(), [X]).apply(graph)
        (finding,) = findings(run, "fusion-no-candidate")
        assert (finding.severity, finding.data["form"]) == ("warning", "torch-function")


class TestSplitPieces:
    """In a piece of a split graph, an input may stand for just the op that the pattern wants."""

    def run_in_piece(self, record_here: Recorder, producer: str, inputs: list[str]) -> Any:
        from compdbg import probe
        from compdbg.events import Boundary, Piece
        from compdbg.hooks import current

        first = f"def forward(\n    x,\n    w,\n):\n    # model.py:3\n    {producer}\n    return norm\n"
        with record_here() as run:
            for name, text, ins, outs in (
                ("submod_0", first, ["x", "w"], ["norm"]),
                ("submod_2", "def forward(\n    norm,\n):\n    return norm.round()", inputs, ["out"]),
            ):
                probe.emit(
                    Piece(
                        graph="0/0",
                        piece=name,
                        piece_kind="compiled",
                        ops=1,
                        inputs=[Boundary(name=n) for n in ins],
                        outputs=[Boundary(name=n) for n in outs],
                        text=probe.payload(text),
                    )
                )
            with current.compiling_graph("0/0 submod_2 (1, 8)"):
                rms_pass().apply(graph_of(lambda x: x.round(), X))
        return run

    def test_the_producer_is_in_another_piece(self, record_here: Recorder) -> None:
        made_by = 'norm: "f32[5, 4]" = torch.ops.fusion_tests.rms(x, w, 1e-05)'
        run = self.run_in_piece(record_here, made_by, ["norm"])
        row = only_row(run, "RMSRound")
        assert (row.outcome, row.reason) == ("missed", "crosses-split")
        (finding,) = findings(run, "fusion-missed")
        assert finding.data["reason"] == "crosses-split"
        assert "Piece submod_0 computes it" in finding.cause

    @pytest.mark.parametrize(
        ("made_by", "inputs"),
        [
            ("norm = torch.sin(x)", ["norm"]),
            ("norm = torch.ops.fusion_tests.rms(x, w, 1e-05)", ["weight"]),
            ("norm = torch.sin(rms)", ["norm"]),
        ],
        ids=["another-op", "a-weight", "an-argument-of-that-name"],
    )
    def test_the_input_is_something_else(
        self, record_here: Recorder, made_by: str, inputs: list[str]
    ) -> None:
        run = self.run_in_piece(record_here, made_by, inputs)
        assert only_row(run, "RMSRound").outcome == "no-candidate"

    @pytest.mark.parametrize("compiled", ["fusion_tests::rms", "fusion_tests::scaled"])
    def test_an_op_of_the_pattern_is_a_splitting_operator(self, record_here: Recorder, compiled: str) -> None:
        """No graph that the pass sees can hold both; where the other op isn't called, nothing is lost."""
        from compdbg import probe
        from compdbg.events import Piece
        from compdbg.hooks import current

        def pattern(x: Tensor, w: Tensor) -> Tensor:
            return ops.scaled(ops.rms(x, w, 1e-5), 2.0)[0]

        with record_here() as run:
            pieces = [("piece_0", "compiled", compiled), ("piece_1", "splitting", "fusion_tests::scaled")]
            for name, kind, op in pieces:
                split_op = op if kind == "splitting" else None
                probe.emit(
                    Piece(
                        graph="Model", piece=name, piece_kind=kind, ops=1, split_op=split_op,
                        inputs=[], outputs=[], op_counts={op: 1},
                    )
                )  # fmt: skip
            with current.compiling_graph("Model piece_0 1-"):
                a_pass(pattern, [X, W], "RMSScaled").apply(graph_of(lambda x, w: ops.rms(x, w, 1e-5), X, W))
        (finding,) = findings(run, "fusion-no-candidate")
        told = (finding.severity, finding.data["form"])
        assert told == (("warning", "split-off") if compiled == "fusion_tests::rms" else ("info", None))

    def test_a_whole_graph_has_no_split(self, record_here: Recorder) -> None:
        with record_here() as run:
            rms_pass().apply(graph_of(lambda x: x.round(), X))
        assert only_row(run, "RMSRound").outcome == "no-candidate"
