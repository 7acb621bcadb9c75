"""A clean model of three layers through vLLM's whole pipeline: cold, then warm from vLLM's cache."""

from __future__ import annotations

import pytest

COMPILED = ["submod_0", "submod_2", "submod_4", "submod_6"]
SPLITTING = ["submod_1", "submod_3", "submod_5"]
PASSES_OF_VLLM = {
    "VllmIRInplaceFunctionalizationPass",
    "PostGradPassManager",
    "NoOpEliminationPass",
    "PostCleanupPass",
    "VllmIRLoweringPass",
    "UnsafeCloneEliminationPass",
    "FixFunctionalizationPass",
}


@pytest.fixture(scope="module")
def cold(engine):
    return engine.recorded("clean.py", "inductor", cache="clean")


@pytest.fixture(scope="module")
def warm(engine, cold):
    return engine.recorded("clean.py", "inductor", cache="clean")


@pytest.fixture(scope="module")
def plain(engine, cold):
    """The same program without compdbg, on the cache that the recorded run has filled."""
    return engine.plain("clean.py", "inductor", cache="clean")


def test_the_program_is_as_without_us(cold, warm, plain):
    assert plain.returncode == 0, plain.stderr
    assert plain.stdout.count("\n") == 5
    for recorded in (cold, warm):
        assert recorded.process.returncode == 0
        assert recorded.process.stdout == plain.stdout
        assert recorded.process.stderr == plain.stderr


def test_vllms_cache_keys_are_as_without_us(engine, cold, warm, plain):
    assert len(engine.cache_entries("clean")) == 1


class TestCold:
    def test_nothing_is_wrong(self, cold):
        assert cold.alarms == []

    def test_every_hook_works(self, engine, cold):
        states = {row["hook"]: row["state"] for row in engine.show(cold, "health")}
        assert states["vllm"] == "works"
        assert set(states.values()) <= {"works", "unused"}

    def test_seven_pieces_of_which_four_are_compiled_and_three_unique(self, engine, cold):
        rows = engine.show(cold, "splits")
        assert [r["piece"] for r in rows] == [f"submod_{i}" for i in range(7)]
        assert [r["piece"] for r in rows if r["kind"] == "compiled"] == COMPILED
        assert [r["piece"] for r in rows if r["kind"] == "splitting"] == SPLITTING
        assert {r["piece"]: r["shared_with"] for r in rows if r["shared_with"]} == {"submod_4": "submod_2"}
        assert {r["split_op"] for r in rows if r["kind"] == "splitting"} == {"toy::attention"}
        assert all(r["differs_by"] is None for r in rows)

    def test_what_crosses_a_border_has_type_shape_and_dtype(self, engine, cold):
        last = engine.show(cold, "splits")[-1]
        (out,) = last["outputs"]
        assert (out["type"], out["shape"][1], out["dtype"]) == ("Tensor", "32", "float32")
        assert out["shape"][0].startswith("s")
        assert {i["type"] for i in last["inputs"]} == {"Tensor", "SymInt"}

    def test_the_twin_was_compiled_once_and_served_twice(self, engine, cold):
        rows = [r for r in engine.show(cold, "cache") if r["layer"] == "twin"]
        assert [(r["piece"], r["range"], r["result"]) for r in rows] == [
            ("0/0 submod_4 4", "4", "hit"),
            ("0/0 submod_4 1-2048", "1-2048", "hit"),
        ]

    def test_each_size_is_served_by_its_range(self, engine, cold):
        rows = engine.show(cold, "sizes")
        assert [(r["size"], r["compiled_as"], r["eager_calls"]) for r in rows] == [
            (4, "4", 1),
            (5, "1-2048", 2),
            (16, "1-2048", 2),
        ]
        assert not any(r["captured"] for r in rows)

    def test_passes_go_by_the_names_of_their_classes(self, engine, cold):
        rows = engine.show(cold, "passes")
        assert {r["pass"] for r in rows} >= PASSES_OF_VLLM
        graphs = {r["graph"] for r in rows if r["pass"] == "NoOpEliminationPass"}
        assert graphs == {f"0/0 submod_{i} {sizes}" for i in (0, 2, 6) for sizes in ("4", "1-2048")}

    def test_the_model_was_compiled_once(self, engine, cold):
        (row,) = [r for r in engine.show(cold, "frames") if r["frame"].endswith("clean.py:31:forward")]
        assert (row["compile_id"], row["result"], row["calls"]) == ("0/0", "compiled", 5)

    def test_all_guards_are_dropped_and_audited(self, engine, cold):
        rows = [r for r in engine.show(cold, "guards") if r["frame"].endswith("clean.py:31:forward")]
        assert len(rows) > 10
        assert not any(r["kept"] for r in rows)
        assert {r["dropped_by"] for r in rows} == {"torch.compiler.skip_all_guards_unsafe"}
        assert sum(r["violations"] or 0 for r in rows) == 0
        assert {r["type"] for r in rows if r["audit"] == "not-audited"} <= {"EMPTY_NN_MODULE_HOOKS_DICT"}

    def test_the_configuration_says_who_changed_what(self, engine, cold):
        rows = {r["key"]: r for r in engine.show(cold, "config")}
        assert (
            rows["splitting_ops"]["requested"] == rows["splitting_ops"]["effective"] == "['toy::attention']"
        )
        assert rows["mode"]["effective"] == "VLLM_COMPILE"
        defaulted = rows["pass_config.fuse_attn_quant"]
        assert (defaulted["requested"], defaulted["effective"]) == (None, "False")
        assert defaulted["changed_by"].startswith(
            "VllmConfig._apply_optimization_level_defaults (vllm/config"
        )


class TestWarm:
    def test_nothing_is_wrong(self, warm):
        assert warm.alarms == []

    def test_it_says_that_the_model_came_whole_from_the_cache(self, engine, warm):
        (row,) = [r for r in engine.show(warm, "cache") if r["layer"] == "vllm"]
        assert row["result"] == "hit"
        assert row["bytes"] > 0
        assert "neither traced, nor split, nor compiled" in row["reason"]

    def test_pieces_are_known_by_name_and_twin_and_nothing_else_is_claimed(self, engine, warm):
        rows = engine.show(warm, "splits")
        assert [(r["piece"], r["kind"], r["shared_with"]) for r in rows] == [
            ("submod_0", "compiled", None),
            ("submod_1", "splitting", None),
            ("submod_2", "compiled", None),
            ("submod_3", "splitting", None),
            ("submod_4", "compiled", "submod_2"),
            ("submod_5", "splitting", None),
            ("submod_6", "compiled", None),
        ]
        assert all(r[key] is None for r in rows for key in ("ops", "inputs", "outputs", "split_op"))

    def test_the_frame_is_said_to_be_loaded(self, engine, warm):
        (row,) = [r for r in engine.show(warm, "frames") if r["frame"].endswith("clean.py:31:forward")]
        assert (row["compile_id"], row["result"], row["calls"]) == ("loaded", "compiled", None)
        assert "in an earlier run" in row["reason"]

    def test_no_guard_is_claimed(self, engine, warm):
        assert engine.show(warm, "guards") == []

    def test_passes_are_those_of_the_run_that_filled_the_cache(self, engine, cold, warm):
        rows = engine.show(warm, "passes")
        assert {r["pass"] for r in rows} >= PASSES_OF_VLLM
        assert {(r["cached"], r["run"]) for r in rows} == {(True, cold.folder.name)}
        graphs = {r["graph"] for r in rows if r["pass"] == "NoOpEliminationPass"}
        assert graphs == {f"backbone submod_{i} {sizes}" for i in (0, 2, 6) for sizes in ("4", "1-2048")}

    def test_sizes_are_still_seen(self, engine, warm):
        rows = engine.show(warm, "sizes")
        assert [(r["size"], r["compiled_as"], r["eager_calls"]) for r in rows] == [
            (4, "4", 1),
            (5, "1-2048", 2),
            (16, "1-2048", 2),
        ]
