"""How differing keys are told: digests short, each difference once, and below the table."""

from __future__ import annotations

import pytest

from compdbg.events import CacheLookup, FactorChange
from compdbg.findings.cache_miss import cache_miss
from compdbg.model.caches import said
from compdbg.report.text import render
from compdbg.views.base import Source
from compdbg.views.cache import cache
from tests.unit.test_pipeline_model import run_of

ONE, OTHER = "a" * 64, "0123456789abcdef" * 2
SHAPES = "TensorMetadata(dtype=torch.float32, shape=torch.Size([{}, 64]), stride=(64, 1), storage_offset=0)"


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("True", "False", "x: True before, False now"),
        (ONE, OTHER, "x: another than before"),
        ("not there", ONE, "x: not there before, aaaaaaaa… now"),
        (f"46, {ONE}", f"48, {OTHER}", "x: 46, aaaaaaaa… before, 48, 01234567… now"),
        (
            SHAPES.format(128),
            SHAPES.format(160),
            "x: …shape=torch.Size([128, 64]), stride=(64, 1), storage_offset… before, "
            "…shape=torch.Size([160, 64]), stride=(64, 1), storage_offset… now",
        ),
    ],
    ids=["values", "digests", "a new one", "a digest in a text", "long texts"],
)
def test_what_a_component_was_and_is(before, after, told):
    assert said(FactorChange(name="x", before=before, after=after)) == told


def missed(piece, *changes, nearest_run="before", **more):
    changed = [FactorChange(name=name, before=before, after=after) for name, before, after in changes]
    return CacheLookup(
        layer="ours", result="miss", key=ONE, graph=piece, reason="changed", nearest_key=OTHER,
        nearest_run=nearest_run, changed_factors=changed, **more,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("known", "told"),
    [
        ({}, "of run before: x"),
        ({"nearest_folder": "~/other"}, "of run before (of another cache folder, ~/other): x"),
        ({"nearest_run": ""}, "of a run that was not recorded: x"),
        (
            {"nearest_run": "", "nearest_made": 1e9},
            "of a run of 2001-09-09 01:46 UTC that was not recorded: x",
        ),
    ],
    ids=["recorded", "another folder", "not recorded", "not recorded, with its time"],
)
def test_whose_the_nearest_key_is(known, told):
    (finding,) = cache_miss(run_of(missed("p_0", ("x", "1", "2"), **known)))
    assert f"Its key differs from the nearest one, {told}" in finding.cause


def test_a_difference_of_many_pieces_is_one_line_below_the_table():
    pass_changed, piece_changed = ("pass A", ONE, OTHER), ("piece", ONE, OTHER)
    pieces = [missed(f"p_{n}", pass_changed) for n in range(9)]
    view = cache(Source(run_of(*pieces, missed("q", piece_changed)), []))
    assert list(view.below) == [
        "What differs from the nearest key, of run before:",
        "pass A: another than before: p_0 ours, p_1 ours, p_2 ours and 6 more",
        "piece: another than before: q ours",
    ]
    lines = render(view).splitlines()
    assert lines.index("  piece  range  layer  result  key           size  why") <= 5
    assert lines[-3] == "What differs from the nearest key, of run before:"


def test_without_an_earlier_key_nothing_is_compared():
    cold = CacheLookup(layer="ours", result="miss", key=ONE, graph="p_0", reason="no entry like it")
    assert list(cache(Source(run_of(cold), [])).below) == []
