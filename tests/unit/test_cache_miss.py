"""One finding for each cause of compiling again, however many functions and pieces it reaches."""

from __future__ import annotations

from compdbg.events import CacheLookup, FactorChange
from compdbg.findings.cache_miss import cache_miss
from tests.unit.test_pipeline_model import run_of


def miss(place, *changed, layer="aot", piece="0/0", **more):
    changes = [FactorChange(name=name, before="a", after="b") for name in changed]
    return CacheLookup(
        layer=layer, result="miss", key=f"key of {place}", nearest_key="other", place=place, graph=piece,
        compile_id=piece, reason="changed", changed_factors=changes, **more,
    )  # fmt: skip


def titles(*events):
    return [finding.title for finding in cache_miss(run_of(*events))]


def test_a_setting_that_changed_is_one_cause_for_all_functions():
    names = "inductor_config.epilogue_fusion"
    assert titles(miss("a.py:step", names), miss("b.py:loss", names, piece="1/0")) == [
        f"a.py:step and 1 other function were compiled again: {names} changed, and with it the cache key"
    ]


def test_graphs_that_changed_are_told_one_by_one():
    assert titles(miss("a.py:step", "gm"), miss("b.py:loss", "gm", piece="1/0")) == [
        "a.py:step was compiled again: the graph changed, and with it the cache key",
        "b.py:loss was compiled again: the graph changed, and with it the cache key",
    ]


def test_pieces_follow_from_their_model():
    model = miss("Model.forward", "config backend", piece="Model")
    pieces = [
        miss(f"piece_{n}", "torch", layer="ours", piece=f"Model piece_{n} 1-", range="1-") for n in (0, 2)
    ]
    assert titles(model, *pieces) == [
        "Model.forward was compiled again: config backend changed, and with it the cache key"
    ]
    assert len(titles(*pieces)) == 1, "without the model they have one cause"
