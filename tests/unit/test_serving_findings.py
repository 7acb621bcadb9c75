"""Findings of splits, sizes and captures, from events: what they need, what they group, what keeps them "
"silent."""

from __future__ import annotations

import pytest

from compdbg.events import (
    AddressChanged,
    Apart,
    Boundary,
    Capture,
    CompileError,
    Dispatch,
    PaddingLeak,
    Piece,
    SplitOpUnmatched,
    StaleInput,
    Where,
)
from compdbg.findings.base import Finding
from compdbg.findings.collect import find_all
from compdbg.views.base import Source
from compdbg.views.explorer.sizes import sizes_view
from compdbg.views.sizes import sizes
from compdbg.views.summary import facts
from tests.unit.test_pipeline_model import run_of

LINE = Where("/home/me/model.py", 12, "forward")


def found(*events) -> list[tuple[str, str]]:
    return [(f.code, f.severity) for f in find_all(run_of(*events))]


def only(*events) -> Finding:
    (finding,) = find_all(run_of(*events))
    return finding


def served(size: int, **counts) -> Dispatch:
    return Dispatch(graph="M", size=size, **({"largest": 8} | counts))


class TestSizeNotCaptured:
    @pytest.mark.parametrize(
        ("calls", "replays", "reported"), [(9, 0, 0), (10, 90, 1), (10, 991, 0), (20, 1000, 1)]
    )
    def test_from_ten_calls_and_one_percent(self, calls, replays, reported):
        row = served(4, eager_calls=calls, replays=replays, uncaptured={"layout": calls})
        assert len(found(row)) == reported

    def test_calls_of_several_sizes_add_up(self):
        rows = [
            served(n, eager_calls=6, uncaptured={"unpaddable": 6}, why="y has 2 rows more") for n in (3, 5)
        ]
        finding = only(*rows)
        assert finding.data["sizes"] == [3, 5]
        assert finding.data["calls"] == 12
        assert "y has 2 rows more" in finding.cause

    def test_warm_ups_are_no_calls(self):
        assert found(served(4, eager_calls=30, warm_ups=30)) == []

    def test_above_the_largest_size_is_worth_knowing(self):
        assert found(served(9, eager_calls=50, uncaptured={"too-large": 50})) == [
            ("size-not-captured", "info")
        ]

    @pytest.mark.parametrize("reason", ["moved", "changed", "empty"])
    def test_what_has_a_finding_of_its_own_or_is_nothing(self, reason):
        assert found(served(4, eager_calls=50, uncaptured={reason: 50})) == []

    @pytest.mark.parametrize(("replays", "severity"), [(0, "warning"), (60, "info")])
    def test_batches_that_the_mode_leaves_out(self, replays, severity):
        row = served(4, eager_calls=50, replays=replays, uncaptured={"mode": 50})
        assert found(row) == [("size-not-captured", severity)]

    def test_no_captures_are_asked_for(self):
        assert found(Dispatch(graph="M", size=4, eager_calls=50, uncaptured={"mode": 50})) == []

    def test_an_engine_that_gives_no_reasons(self):
        captures = [Capture(graph="M", piece="p0", size=n) for n in (4, 8)]
        warm_ups = [Dispatch(graph="M", size=n, captures=1, eager_calls=30) for n in (4, 8)]
        assert found(*captures, *warm_ups) == []
        assert found(*captures, *warm_ups, Dispatch(graph="M", size=6, eager_calls=30)) == [
            ("size-not-captured", "warning")
        ]


class TestCaptureFailed:
    def failed(self, size: int, piece: str = "piece_2") -> Capture:
        return Capture(
            graph="M", piece=piece, size=size, emulated=True, error="aten.item reads a value", fault="sync",
            op="aten.item.default", thread="MainThread", stack=[LINE], where=LINE,
        )  # fmt: skip

    def test_one_cause_at_many_sizes_is_one_and_explains_the_calls_without_a_capture(self):
        calls = [served(n, eager_calls=40, uncaptured={"failed": 40}) for n in (3, 4, 8)]
        finding = only(self.failed(8), self.failed(4, "piece_4"), *calls)
        assert (finding.code, finding.severity, finding.where) == ("capture-failed", "error", LINE)
        assert (finding.data["kind"], finding.data["size"]) == ("sync", 8)
        assert finding.data["sizes"] == [4, 8]
        assert finding.data["pieces"] == ["piece_2", "piece_4"]

    def test_a_kind_that_cuda_has_no_name_for_is_an_op(self):
        odd = Capture(graph="M", piece="", size=4, error="cudaErrorUnknown", fault="other")
        assert only(odd).data["kind"] == "op"


class TestReplaysThatWereRefused:
    def test_all_parameters_that_moved_are_one_cause(self):
        moved = [
            AddressChanged(
                graph="M", piece="", size=4, argument=f"self.w{i}", captured="0x1", seen="0x2", static=True
            )
            for i in range(150)
        ]
        calls = served(4, eager_calls=70, refused=70, uncaptured={"moved": 70})
        finding = only(*moved, calls)
        assert (finding.code, finding.data["static"], finding.data["calls"]) == (
            "capture-address-changed",
            True,
            70,
        )
        assert len(finding.data["arguments"]) == 150
        assert len(finding.title) < 200

    def test_a_value_with_all_that_it_became(self):
        stale = [
            StaleInput(
                graph="M", piece="", size=4, name="attn_metadata.longest", captured="7", seen=str(n), calls=n
            )
            for n in (8, 9)
        ]
        finding = only(*stale)
        assert (finding.code, finding.data["captured"], finding.data["seen"]) == (
            "capture-stale-input",
            "7",
            ["8", "9"],
        )
        assert finding.cost.results == "same"

    def test_metadata_of_another_form_is_no_changed_value(self):
        stale = StaleInput(
            graph="M", piece="", size=4, name="attn_metadata.t", captured="[4]", seen="[5]", form=True
        )
        assert found(stale) == []

    def test_what_an_operator_reads_by_itself_gives_wrong_results_on_a_gpu(self):
        stale = [
            StaleInput(
                graph="M",
                piece=f"piece_{i}",
                size=4,
                name=f"argument {i} of aten.mul",
                captured="1.0",
                seen="2.0",
                replayed=True,
                where=LINE,
            )
            for i in range(3)
        ]
        finding = only(*stale)
        assert (finding.cost.results, finding.where, finding.data["replayed"]) == ("wrong", LINE, True)

    def test_a_leak_is_told_once_with_its_sizes(self):
        leaks = [
            PaddingLeak(graph="M", size=n, padded_to=8, what="output 0", elements=n, max_abs=n / 2)
            for n in (3, 5)
        ]
        finding = only(*leaks)
        assert (finding.code, finding.severity, finding.cost.results) == (
            "padded-rows-leak",
            "error",
            "wrong",
        )
        assert (finding.data["sizes"], finding.data["max_abs"]) == ([[3, 8], [5, 8]], 2.5)

    @pytest.mark.parametrize(("leaks", "mark"), [([], "✓ by 8"), ([3], "✗ by 8")])
    def test_a_size_that_leaks_is_not_called_good(self, leaks, mark):
        events = [PaddingLeak(graph="M", size=n, padded_to=8, what="output 0", elements=n) for n in leaks]
        source = Source(run_of(Dispatch(graph="M", size=3, padded_to=8, replays=1), *events), [])
        trouble = {c.title: c.cell for c in sizes(source).columns}["trouble"]
        served = {c.title: c.cell for c in sizes_view(source).columns}["served"]
        (row,) = source.run.sizes
        assert trouble(row) == ("padding changes output 0" if leaks else "")
        assert served(row) == mark


class TestPaddingChecks:
    """COMPDBG_CHECK_PADDING: what it came to is said, above all where nothing was wrong."""

    LEAK = PaddingLeak(graph="M", size=3, padded_to=8, what="output 0", elements=3)

    @pytest.mark.parametrize(
        ("checks", "events", "said"),
        [
            ((2, 5), [], "padding checked: 2 sizes (7 replays), nothing leaked"),
            ((1, 0), [], "padding checked: 1 size (1 replay), nothing leaked"),
            ((2, 5), [LEAK], "padding checked: 2 sizes (7 replays), added rows leak at 3"),
            ((0, 0), [], "padding checked: nothing, as no padded call was replayed"),
            ((None, None), [], ""),
        ],
    )
    def test_it_is_said_on_every_face(self, checks, events, said):
        calls = [
            Dispatch(graph="M", size=n, padded_to=8, replays=6, padding_checks=count)
            for n, count in zip((3, 5), checks, strict=True)
        ]
        source = Source(run_of(*calls, *events), [])
        lines = [line for view in (sizes, sizes_view) for line in view(source).lines]
        assert [line for line in lines if "padding checked" in line] == ([said] * 2 if said else [])
        assert dict(facts(source)).get("padding", "") == said.removeprefix("padding ")


class TestSplits:
    def piece(self, name: str, scale: str = "", **more) -> Piece:
        apart = [Apart(op="mul", argument="argument 1", here=scale, there="1.0", where=LINE)] if scale else []
        given = {"outputs": [Boundary(name=f"{name}_out", shape=["s0", "8"])], "op_counts": {"mul": 1}} | more
        related = "piece_0" if scale else None
        return Piece(
            graph="M", piece=name, piece_kind="compiled", ops=1, related_to=related, apart=apart, **given
        )

    def test_values_of_a_constant_are_one_finding(self):
        pieces = [self.piece("piece_0"), self.piece("piece_2", "0.5"), self.piece("piece_4", "2.0")]
        twin = self.piece("piece_6", shared_with="piece_2")
        finding = only(*pieces, twin)
        assert (finding.code, finding.data["compiled"], finding.data["values"]) == (
            "pieces-not-shared",
            3,
            ["1.0", "0.5", "2.0"],
        )
        assert finding.title.startswith("4 pieces of M would be one but for argument 1 of mul")

    def test_pieces_that_give_other_shapes_are_no_twins(self):
        other = self.piece("piece_2", "2", outputs=[Boundary(name="y", shape=["s0", "4"])])
        assert found(self.piece("piece_0"), other) == []

    def test_ranks_say_the_same_once(self):
        pieces = [self.piece("piece_0"), self.piece("piece_2", "0.5")]
        assert len(found(*[(rank, p) for rank in "ab" for p in pieces])) == 1

    def test_a_name_that_another_graph_is_split_at_is_matched(self):
        unmatched = SplitOpUnmatched(graph="vision", name="ns::attention", nearest="ns::attend")
        split = Piece(
            graph="text", piece="piece_1", piece_kind="splitting", ops=1, split_op="ns::attention, ns::b"
        )
        assert found(unmatched) == [("split-op-unmatched", "warning")]
        assert found(unmatched, split) == []

    @pytest.mark.parametrize(
        ("name", "cause", "advice"),
        [
            (
                SplitOpUnmatched(graph="M", name="ns::atention", nearest="ns::attention"),
                "No operator is called 'ns::atention'; 'ns::attention' is called in 1 graph (M). None of the",
                "Write 'ns::attention'.",
            ),
            (
                SplitOpUnmatched(
                    graph="M", name="ns::atention", nearest="ns::attention", matched=["ns::attention"]
                ),
                "No operator is called 'ns::atention'; 'ns::attention' is called in 1 graph (M). "
                "The graph is split at ns::attention only.",
                "Drop the name: 'ns::attention' is in the list.",
            ),
            (
                SplitOpUnmatched(graph="M", name="other::one"),
                "No operator of that name is registered with torch, nor one with a name like it called in",
                "Write the name as `namespace::operator`",
            ),
            (
                SplitOpUnmatched(graph="M", name="ns::mamba", exists=True),
                "The operator is registered, but no call of it was traced in 1 graph (M).",
                "Drop the name, or check",
            ),
        ],
    )
    def test_a_name_that_matches_nothing_is_told_by_what_is_wrong_with_it(self, name, cause, advice):
        finding = only(name)
        assert finding.cause.startswith(cause)
        assert finding.suggestion.startswith(advice)

    def test_a_list_for_several_models(self):
        name = SplitOpUnmatched(graph="M", name="ns::mamba", exists=True, matched=["ns::attention"])
        assert found(name) == [("split-op-unmatched", "info")]

    def test_a_bad_crossing_is_the_cause_of_the_compile_that_failed(self):
        out = Boundary(name="u", type="SymInt", unbacked=["u0"], where=LINE)
        pieces = [
            Piece(
                graph="M", piece="piece_0", piece_kind="compiled", ops=1, outputs=[out], op_counts={"item": 1}
            ),
            Piece(
                graph="M", piece="piece_2", piece_kind="compiled", ops=1, inputs=[out], op_counts={"mul": 1}
            ),
        ]
        error = CompileError(
            frame="f", compile_id="0/0", stage="inductor", error="E", message="no u0", root_error="E",
            root_message="no u0", graph="M piece_2 1-",
        )  # fmt: skip
        assert found(*pieces, error) == [("split-boundary", "error")]
        elsewhere = CompileError(
            frame="f", compile_id="0/0", stage="inductor", error="E", message="no", root_error="E",
            root_message="no", graph="M piece_4 1-",
        )  # fmt: skip
        third = Piece(graph="M", piece="piece_4", piece_kind="compiled", ops=1, op_counts={"mul": 1})
        assert len(found(*pieces, third, elsewhere)) == 2

    def test_symbols_that_come_in_with_the_graph_may_cross(self):
        size = Boundary(name="s", type="SymInt", unbacked=["u0"])
        value = Boundary(name="y", shape=["u0", "8"], unbacked=["u0"])
        pieces = [
            Piece(
                graph="M",
                piece="piece_0",
                piece_kind="compiled",
                ops=1,
                inputs=[size],
                outputs=[value],
                op_counts={"mul": 1},
            ),
            Piece(
                graph="M",
                piece="piece_2",
                piece_kind="compiled",
                ops=1,
                inputs=[size, value],
                op_counts={"mul": 1},
            ),
        ]
        assert found(*pieces) == []
