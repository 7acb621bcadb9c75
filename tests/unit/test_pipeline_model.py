"""Pieces, sizes and settings as they are worked out from what processes recorded."""

from __future__ import annotations

import json

import pytest

from compdbg.events import (
    Boundary,
    Capture,
    ConfigValue,
    Dispatch,
    Event,
    Header,
    Piece,
    PieceCompiled,
)
from compdbg.model.run import Run
from compdbg.report.json import answer
from compdbg.store.reader import Log, Record
from compdbg.views.base import Source
from compdbg.views.config import config
from compdbg.views.sizes import sizes
from compdbg.views.splits import splits


def run_of(*events: Event | tuple[str, Event]) -> Run:
    """A run of these events, by process `a` unless another is named."""
    placed = [e if isinstance(e, tuple) else ("a", e) for e in events]
    records = [Record(Header(process=p, seq=n, time=float(n)), e) for n, (p, e) in enumerate(placed, 1)]
    return Run(Log(None, {}, records))


def row(view, run):
    (item,) = view(Source(run, [])).items
    return item


class TestPieces:
    def test_what_is_no_tensor_has_neither_shape_nor_dtype(self):
        run = run_of(
            Piece(
                graph="0/0",
                piece="submod_0",
                piece_kind="compiled",
                ops=2,
                inputs=[Boundary(name="s0", type="SymInt")],
                outputs=[Boundary(name="y", shape=["s0", "4"], dtype="float16")],
            ),
            PieceCompiled(graph="0/0", piece="submod_0", range="1-8"),
            PieceCompiled(graph="0/0", piece="submod_0", range="4"),
        )
        (piece,) = run.pieces
        assert [(c.type, c.shape, c.dtype) for c in piece.inputs] == [("SymInt", None, None)]
        assert [(c.type, c.shape, c.dtype) for c in piece.outputs] == [("Tensor", ["s0", "4"], "float16")]
        assert piece.compiles == ["1-8", "4"]

    def test_of_a_loaded_piece_nothing_is_claimed(self):
        run = run_of(Piece(graph="backbone", piece="submod_0", piece_kind="compiled", loaded=True))
        (piece,) = run.pieces
        assert (piece.ops, piece.inputs, piece.outputs) == (None, None, None)
        assert any("not observed in this run" in line for line in splits(Source(run, [])).lines)

    def test_a_constant_that_prevents_sharing_is_said_above_the_table(self):
        run = run_of(
            Piece(
                graph="0/0",
                piece="submod_2",
                piece_kind="compiled",
                ops=1,
                differs_by="argument 1 of mul is 3, and 2 in submod_0",
            )
        )
        assert splits(Source(run, [])).lines[-1] == (
            "submod_2 is no twin: argument 1 of mul is 3, and 2 in submod_0"
        )


class TestCompiledFor:
    def said(self, *events):
        run = run_of(*events)
        cell = {column.title: column.cell for column in splits(Source(run, [])).columns}["compiled for"]
        return [cell(piece) for piece in run.pieces]

    def test_a_twin_runs_what_its_first_was_compiled_to(self):
        first, twin = (
            Piece(graph="M", piece=name, piece_kind="compiled", shared_with=shared)
            for name, shared in (("piece_0", None), ("piece_2", "piece_0"))
        )
        compiled = [PieceCompiled(graph="M", piece="piece_0", range=each) for each in ("8", "1-")]
        assert self.said(first, twin, *compiled) == ["8, 1-", "as piece_0"]

    def test_a_size_that_was_tuned_and_one_that_does_not_matter(self):
        pieces = [Piece(graph="M", piece=f"piece_{n}", piece_kind="compiled") for n in (0, 2)]
        tuned = {"max_autotune": "true", "coordinate_descent_tuning": "true"}
        compiled = [
            PieceCompiled(graph="M", piece="piece_0", range="8", options=tuned),
            PieceCompiled(graph="M", piece="piece_0", range="1-", options={"epilogue_fusion": "false"}),
            PieceCompiled(graph="M", piece="piece_2", range="0"),
        ]
        assert self.said(*pieces, *compiled) == ["8 tuned, 1-", "any size"]


class TestSizes:
    @pytest.mark.parametrize(
        ("options", "tuned", "said"),
        [
            ({"coordinate_descent_tuning": "true", "max_autotune": "false"}, True, "8 tuned"),
            ({}, False, "8"),
            (None, None, "8"),
        ],
    )
    def test_whether_what_a_size_runs_as_was_tuned(self, options, tuned, said):
        run = run_of(
            PieceCompiled(graph="M", piece="piece_0", range="8", options=options),
            Dispatch(graph="M", size=8, compiled_as="8", eager_calls=1),
        )
        cell = {column.title: column.cell for column in sizes(Source(run, [])).columns}["compiled as"]
        (row,) = run.sizes
        assert (row.tuned, cell(row)) == (tuned, said)

    def test_the_last_tally_counts(self):
        run = run_of(
            Dispatch(graph="0/0", size=4, compiled_as="1-8", eager_calls=1),
            Dispatch(graph="0/0", size=4, compiled_as="1-8", eager_calls=2),
        )
        assert [(s.size, s.compiled_as, s.eager_calls, s.captured) for s in run.sizes] == [
            (4, "1-8", 2, False)
        ]

    def test_processes_add_up(self):
        run = run_of(
            ("a", Dispatch(graph="0/0", size=4, replays=3)), ("b", Dispatch(graph="0/0", size=4, replays=2))
        )
        assert run.sizes[0].replays == 5

    def test_a_padded_size_is_served_by_another_ones_capture(self):
        run = run_of(
            Capture(graph="0/0", piece="submod_0", size=4, duration_ms=2.0),
            Capture(graph="0/0", piece="submod_2", size=4, duration_ms=3.0),
            Dispatch(graph="0/0", size=4, captures=1),
            Dispatch(graph="0/0", size=3, padded_to=4, replays=7),
        )
        three, four = run.sizes
        assert (three.padded_to, three.captured, three.captures, three.replays) == (4, True, 0, 7)
        assert (four.captured, four.captures, four.capture_ms) == (True, 2, 5.0)

    def test_a_capture_that_failed_is_none(self):
        run = run_of(Capture(graph="0/0", piece="submod_0", size=4, error="RuntimeError: illegal"))
        assert (run.sizes[0].captured, run.sizes[0].captures) == (False, 0)


class TestSettings:
    def test_what_was_left_open_has_no_requested_value(self):
        item = row(config, run_of(ConfigValue(key="mode", requested="", effective="NONE", changed_by="x")))
        assert item.requested is None
        assert json.loads(answer(None, [item]))["items"][0]["requested"] is None

    def test_the_last_word_of_a_process_counts(self):
        run = run_of(
            ConfigValue(key="mode", requested="FULL", effective="PIECEWISE"),
            ConfigValue(key="mode", requested="FULL", effective="NONE"),
        )
        assert [s.effective for s in run.settings] == ["NONE"]

    def test_processes_that_agree_are_one_row(self):
        same = ConfigValue(key="mode", requested="FULL", effective="NONE")
        other = ConfigValue(key="mode", requested="FULL", effective="FULL")
        assert len(run_of(("a", same), ("b", same)).settings) == 1
        assert len(run_of(("a", same), ("b", other)).settings) == 2
