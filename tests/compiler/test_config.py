"""Configuration: strict, converted, overridden from outside, and settled with who changed what."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from compdbg.compiler.compiler_interface import InductorAdaptor, register_compiler
from compdbg.compiler.compiler_manager import CompilerManager
from compdbg.compiler.config import (
    CompilationConfig,
    CompilationMode,
    CUDAGraphMode,
    DynamicShapesConfig,
    DynamicShapesType,
    PassConfig,
)
from compdbg.compiler.config_values import ConfigError
from compdbg.compiler.effective import (
    DEFAULT_CAPTURE_SIZES,
    current_config,
    emit_config,
    resolve,
    use_config,
)
from compdbg.compiler.overrides import apply_overrides, check_key
from compdbg.compiler.passes.pass_manager import available_passes
from compdbg.compiler.ranges import UNBOUNDED, Range, compile_ranges
from compdbg.events import ConfigValue
from tests.compiler.sized import Heard


@pytest.fixture(autouse=True)
def nothing_in_the_environment(cache, monkeypatch):
    monkeypatch.delenv("COMPDBG_CACHE_DIR")


def test_values_are_converted_from_what_people_write():
    config = CompilationConfig(
        mode=3,
        cudagraph_mode="full_and_piecewise",
        cudagraph_capture_sizes=(4, 1),
        pass_config={"fuse_norm_quant": True},
        dynamic_shapes_config={"type": "unbacked"},
        compile_ranges=[[1, 4]],
    )
    assert config.mode is CompilationMode.FULL is CompilationMode.VLLM_COMPILE
    assert config.cudagraph_mode is CUDAGraphMode.FULL_AND_PIECEWISE
    assert config.pass_config == PassConfig(fuse_norm_quant=True)
    assert config.dynamic_shapes_config.type is DynamicShapesType.UNBACKED
    assert config.compile_ranges == [(1, 4)]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"bakend": "eager"}, "has no 'bakend'; did you mean 'backend'?"),
        ({"mode": "FUL"}, "no CompilationMode 'FUL'; did you mean 'FULL'?"),
        ({"mode": 7}, "no CompilationMode 7; there are: DYNAMO_TRACE_ONCE, FULL, NONE"),
        ({"mode": True}, "no CompilationMode True"),
        ({"cudagraph_mode": "PIECEWIS"}, "did you mean 'PIECEWISE'?"),
        ({"cudagraph_capture_sizes": [0, 4]}, "sizes start at 1; got [0]"),
        (
            {"cudagraph_capture_sizes": "4"},
            "a list of numbers is wanted, not the text '4'; write cudagraph_capture_sizes=[4]",
        ),
        (
            {"compile_sizes": ["all"]},
            "a list of numbers or 'cudagraph_capture_sizes' is wanted, not the list ['all']",
        ),
        ({"compile_ranges": [(4, 1)]}, "(4, 1) is not a range of sizes from 1 on"),
        ({"compile_ranges": [(1, 5), (5, 9)]}, "(5, 9) overlaps the range that ends at 5"),
        ({"backend": 3}, "CompilationConfig.backend: a text is wanted, not the number 3"),
        (
            {"pass_config": {"fuse_norm": True}},
            "PassConfig has no 'fuse_norm'; did you mean 'fuse_norm_quant'?",
        ),
        ({"splitting_ops": "a::b"}, "CompilationConfig.splitting_ops"),
        (
            {"dynamic_shapes_config": {"type": "unbacked", "evaluate_guards": True}},
            "evaluate_guards has nothing to evaluate",
        ),
    ],
)
def test_a_wrong_key_or_value_is_an_error_that_names_the_nearest(values, message):
    with pytest.raises(ConfigError) as raised:
        CompilationConfig(**values)
    assert message in str(raised.value)


def overridden(config=None, **environment):
    return apply_overrides(config or CompilationConfig(), environment)


def test_the_command_line_wins_over_the_program():
    pairs = {"backend": "eager", "cudagraph_capture_sizes": "[1,8,16]", "pass_config.enable_all": "false"}
    config, changes = overridden(CompilationConfig(backend="inductor"), COMPDBG_CC=json.dumps(pairs))
    assert (config.backend, config.cudagraph_capture_sizes) == ("eager", [1, 8, 16])
    assert config.pass_config.enable_all is False
    assert [(c.key, c.effective, c.by) for c in changes] == [
        ("backend", "eager", "-cc.backend=eager"),
        ("cudagraph_capture_sizes", "[1, 8, 16]", "-cc.cudagraph_capture_sizes=[1,8,16]"),
        ("pass_config.enable_all", "false", "-cc.pass_config.enable_all=false"),
    ]


def test_options_of_inductor_are_set_one_by_one():
    pairs = {"inductor_compile_config.max_autotune": "true"}
    config, _ = overridden(
        CompilationConfig(inductor_compile_config={"epilogue_fusion": False}), COMPDBG_CC=json.dumps(pairs)
    )
    assert config.inductor_compile_config == {"epilogue_fusion": False, "max_autotune": True}


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("cudagraph_mod", "no configuration key 'cudagraph_mod'; did you mean 'cudagraph_mode'?"),
        ("pass_config.fuse_rope", "did you mean 'pass_config.fuse_rope_kvcache'?"),
    ],
)
def test_an_unknown_key_on_the_command_line_names_the_nearest(key, message):
    with pytest.raises(ConfigError) as raised:
        check_key(key)
    assert message in str(raised.value)
    with pytest.raises(ConfigError):
        overridden(COMPDBG_CC=json.dumps({key: "1"}))


def test_a_wrong_value_on_the_command_line_is_an_error():
    with pytest.raises(ConfigError, match="cudagraph_mode"):
        overridden(COMPDBG_CC=json.dumps({"cudagraph_mode": "SOMETIMES"}))
    with pytest.raises(ConfigError, match="no JSON object"):
        overridden(COMPDBG_CC="[1]")


def test_the_environment_wins_over_defaults_only_but_may_always_switch_off():
    config, _ = overridden(COMPDBG_CACHE_DIR="/one", COMPDBG_DEBUG_DUMP_PATH="/two")
    assert (config.cache_dir, config.debug_dump_path) == ("/one", "/two")
    config, _ = overridden(CompilationConfig(cache_dir="/mine"), COMPDBG_CACHE_DIR="/one")
    assert config.cache_dir == "/mine"
    config, changes = overridden(CompilationConfig(), VLLM_DISABLE_COMPILE_CACHE="1")
    assert config.disable_cache and changes[0].by == "VLLM_DISABLE_COMPILE_CACHE"
    config, _ = overridden(CompilationConfig(), VLLM_DISABLE_COMPILE_CACHE="0")
    assert not config.disable_cache


def test_enforce_eager_is_mode_none_without_captures():
    config, changes = overridden(
        CompilationConfig(cudagraph_mode="FULL"), COMPDBG_CC='{"enforce_eager": "true"}'
    )
    assert (config.mode, config.cudagraph_mode) == (CompilationMode.NONE, CUDAGraphMode.NONE)
    assert {c.by for c in changes} == {"--enforce-eager=true"}


CC = '{"backend": "eager"}'


def settled(**values):
    return resolve(CompilationConfig(**values), available_passes())


def test_what_was_left_open_is_filled_in():
    config = settled(cudagraph_mode="PIECEWISE").config
    assert config.splitting_ops == []
    assert config.cudagraph_capture_sizes == list(DEFAULT_CAPTURE_SIZES)
    assert config.compile_sizes == []
    assert DEFAULT_CAPTURE_SIZES[:6] == (1, 2, 4, 8, 16, 24) and DEFAULT_CAPTURE_SIZES[-1] == 256
    config = settled(
        cudagraph_mode="FULL", cudagraph_capture_sizes=[8, 1, 8], compile_sizes=["cudagraph_capture_sizes", 3]
    ).config
    assert (config.cudagraph_capture_sizes, config.compile_sizes) == ([1, 8], [1, 3, 8])


def test_each_change_says_who_and_why():
    changes = settled(mode="DYNAMO_TRACE_ONCE", cudagraph_mode="FULL", splitting_ops=["a::b"]).changes
    assert {(c.key, c.requested, c.effective, c.by) for c in changes} == {
        ("cudagraph_mode", "FULL", "NONE", "the compiler"),
        ("splitting_ops", "[a::b]", "[]", "the compiler"),
    }
    assert all("only FULL splits, captures" in c.why for c in changes)
    (change,) = settled(backend="eager", use_inductor_graph_partition=True).changes
    assert (change.key, change.effective) == ("use_inductor_graph_partition", "false")
    (change,) = settled(cudagraph_capture_sizes=[4]).changes
    assert change.why == "cudagraph_mode is NONE: nothing is captured"


def test_passes_are_not_in_effect_where_nothing_runs_them():
    asked = {"pass_config": {"fuse_norm_quant": True, "fuse_act_quant": False}, "inductor_passes": [len]}
    for values, why in (
        ({"backend": "eager"}, "the backend is eager: only Inductor runs passes"),
        ({"mode": "DYNAMO_TRACE_ONCE"}, "mode is DYNAMO_TRACE_ONCE: only FULL splits"),
    ):
        effective = settled(**asked, **values)
        assert {c.key: c.effective for c in effective.changes if c.why.startswith(why)} == {
            "pass_config.fuse_norm_quant": "false",
            "inductor_passes": "[]",
        }
        assert not any(getattr(effective.config.pass_config, flag) for flag in PassConfig.flags())
    assert settled(backend="eager").changes == [] == settled(**asked).changes


def test_passes_stay_in_effect_for_a_compiler_of_the_users_that_is_inductor_beneath():
    class Own(InductorAdaptor):
        name = "own"

    register_compiler("own", lambda config: Own())
    effective = settled(backend="own", pass_config={"fuse_norm_quant": True}, inductor_passes=[len])
    assert effective.changes == []
    assert effective.config.pass_config.fuse_norm_quant
    assert effective.config.inductor_passes == [len]


@pytest.mark.parametrize(
    ("tune", "own", "wanted"),
    [
        (True, {}, {"1": (True, True), "4": (True, True), "2-": (None, None), "0": (None, None)}),
        (False, {}, dict.fromkeys(("1", "4", "2-", "0"), (None, None))),
        (True, {"max_autotune": False}, {"4": (False, True), "2-": (False, None)}),
    ],
)
def test_sizes_of_their_own_are_tuned(tune, own, wanted):
    config = CompilationConfig(tune_single_sizes=tune, inductor_compile_config=own)
    manager = CompilerManager("Model", config, "test")
    options = {size: manager._options(Range.parse(size)) for size in wanted}
    keys = ("max_autotune", "coordinate_descent_tuning")
    assert {size: tuple(map(found.get, keys)) for size, found in options.items()} == wanted


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"compile_sizes": [4]}, None),
        ({}, "compile_sizes is empty: only sizes that are compiled on their own are tuned"),
        ({"compile_sizes": [4], "backend": "eager"}, "the backend is eager: only Inductor tunes"),
        (
            {"compile_sizes": [4], "mode": "DYNAMO_TRACE_ONCE"},
            "mode is DYNAMO_TRACE_ONCE: only FULL compiles sizes on their own",
        ),
    ],
)
def test_tuning_that_has_nothing_to_tune_is_put_back_and_said(settings, why):
    effective = resolve(CompilationConfig(tune_single_sizes=True, **settings), available_passes())
    assert effective.config.tune_single_sizes is (why is None)
    assert [c.why for c in effective.changes if c.key == "tune_single_sizes"] == ([why] if why else [])


@pytest.mark.parametrize(("outside", "in_program", "asked"), [("{}", "eager", True), (CC, "inductor", False)])
def test_passes_that_fell_to_a_backend_from_the_command_line_were_meant_to(
    monkeypatch, outside, in_program, asked
):
    monkeypatch.setenv("COMPDBG_CC", outside)
    requested = CompilationConfig(backend=in_program, pass_config={"fuse_norm_quant": True})
    with Heard() as heard:
        emit_config(requested, resolve(requested, available_passes()))
    found = {e.key: (e.effective, e.asked) for e in heard.of(ConfigValue)}
    assert found["pass_config.fuse_norm_quant"] == ("false", asked)


def test_sizes_that_are_not_captured_by_command_were_meant_not_to(monkeypatch):
    requested = CompilationConfig(cudagraph_mode="FULL", cudagraph_capture_sizes=[4])
    for outside, asked in (
        ('{"cudagraph_mode": "NONE"}', False),
        ('{"mode": "STOCK_TORCH_COMPILE"}', False),  # which captures nothing, so that there are no sizes
        ('{"cudagraph_mode": "NONE", "cudagraph_capture_sizes": "[8]"}', True),
    ):
        monkeypatch.setenv("COMPDBG_CC", outside)
        with Heard() as heard:
            emit_config(requested, resolve(requested))
        found = {e.key: (e.effective, e.asked) for e in heard.of(ConfigValue)}
        assert found["cudagraph_capture_sizes"] == ("[]", asked)


def test_switches_of_passes_follow_enable_all_unless_named():
    def enabled(**flags):
        config = settled(pass_config=flags).config.pass_config
        return [flag for flag in PassConfig.flags() if getattr(config, flag)]

    usual = enabled()
    assert "eliminate_noops" in usual
    assert enabled(enable_all=False) == []
    assert enabled(enable_all=False, eliminate_noops=True) == ["eliminate_noops"]
    assert "eliminate_noops" not in enabled(eliminate_noops=False)
    assert set(enabled(enable_all=True)) == set(available_passes())


def test_events_hold_what_was_asked_and_what_became_of_it():
    requested = CompilationConfig(
        backend="eager",
        cudagraph_mode="PIECEWISE",
        cudagraph_capture_sizes=[2],
        use_inductor_graph_partition=True,
        dynamic_shapes_config=DynamicShapesConfig(type="unbacked"),
    )
    with Heard() as heard:
        emit_config(requested, resolve(requested))
    found = {e.key: (e.requested, e.effective, e.changed_by) for e in heard.of(ConfigValue)}
    assert found == {
        "backend": ("eager", "eager", ""),
        "cudagraph_mode": ("PIECEWISE", "PIECEWISE", ""),
        "cudagraph_capture_sizes": ("[2]", "[2]", ""),
        "dynamic_shapes_config.type": ("UNBACKED", "UNBACKED", ""),
        "use_inductor_graph_partition": ("true", "false", "the compiler"),
    }


def test_use_config_nests_and_takes_configurations_only():
    outer, inner = CompilationConfig(backend="eager"), CompilationConfig()
    with use_config(outer):
        with use_config(inner):
            assert current_config() is inner
        assert current_config() is outer
    assert current_config() == CompilationConfig()
    with pytest.raises(ConfigError, match="takes a CompilationConfig, not dict"), use_config({}):
        pass


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ({}, ["1-"]),
        ({"compile_sizes": [8, 2]}, ["2", "8", "1-"]),
        ({"compile_ranges": [(1, 16), (17, 64)]}, ["1-16", "17-64", "65-"]),
        ({"compile_ranges": [(4, 8)], "compile_sizes": [6]}, ["6", "1-3", "4-8", "9-"]),
        ({"compile_ranges": [(1, 1)], "compile_sizes": [1]}, ["1", "2-"]),
    ],
)
def test_ranges_leave_no_size_out(values, wanted):
    ranges = compile_ranges(settled(**values).config)
    assert [str(each) for each in ranges] == wanted
    assert [Range.parse(str(each)) for each in ranges] == ranges
    for size in (1, 2, 5, 17, 1000, UNBOUNDED):
        assert any(size in each for each in ranges)


def test_configuration_alone_does_not_import_torch():
    code = (
        "import sys; from compdbg.compiler import CompilationConfig, use_config, PassConfig;"
        "from compdbg.compiler.overrides import check_key; check_key('backend');"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
