"""A value of the wrong form, and a name that is only near: what is said, and that what is suggested works."""

from __future__ import annotations

import argparse
import json
import shlex

import pytest

from compdbg.cli.command_line import split
from compdbg.cli.errors import UsageError
from compdbg.compiler.config import CompilationConfig, DynamicShapesConfig, PassConfig
from compdbg.compiler.config_values import ConfigError
from compdbg.compiler.near_names import near_names
from compdbg.compiler.overrides import all_keys, apply_overrides

KEYS = sorted(all_keys(CompilationConfig))


def typed(option: str) -> dict[str, str]:
    return split([option, "program.py"], argparse.ArgumentParser()).overrides


def refusal(option: str) -> str:
    with pytest.raises(UsageError) as raised:
        typed(option)
    return str(raised.value)


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (
            "-cc.cudagraph_capture_sizes=8",
            "a list of numbers is wanted, not the number 8; write -cc.cudagraph_capture_sizes='[8]'",
        ),
        (
            "--cc.cudagraph_capture_sizes=1,2,8",
            "a list of numbers is wanted, not the text '1,2,8'; "
            "write --cc.cudagraph_capture_sizes='[1, 2, 8]'",
        ),
        (
            '-cc.cudagraph_capture_sizes=["8"]',
            "a list of numbers is wanted, not the list ['8']; write -cc.cudagraph_capture_sizes='[8]'",
        ),
        (
            "-cc.splitting_ops=a::b",
            "a list of names is wanted, not the text 'a::b'; write -cc.splitting_ops='[\"a::b\"]'",
        ),
        (
            "-cc.compile_ranges=[1, 8]",
            "a list of pairs of numbers is wanted, not the list [1, 8]; write -cc.compile_ranges='[[1, 8]]'",
        ),
        (
            "-cc.compile_sizes=cudagraph_capture_sizes",
            "a list of numbers or 'cudagraph_capture_sizes' is wanted, "
            "not the text 'cudagraph_capture_sizes'; write -cc.compile_sizes='[\"cudagraph_capture_sizes\"]'",
        ),
        (
            "-cc.tune_single_sizes=yes",
            "true or false is wanted, not the text 'yes'; write -cc.tune_single_sizes=true",
        ),
        (
            "-cc.cudagraph_num_of_warmups=two",
            "a whole number is wanted, not the text 'two'; write -cc.cudagraph_num_of_warmups=1",
        ),
        (
            "-cc.pass_config=false",
            "a mapping of its keys is wanted, not false; write -cc.pass_config.enable_all=false",
        ),
        (
            '-cc.pass_config={"fuse_norm_quant": 1}',
            "true or false is wanted, not the number 1; write -cc.pass_config.fuse_norm_quant=true",
        ),
        (
            "-cc.dynamic_shapes_config=unbacked",
            "a mapping of its keys is wanted, not the text 'unbacked'; "
            "write -cc.dynamic_shapes_config.type=unbacked",
        ),
        ("-cc.cudagraph_capture_sizes=[0]", "sizes start at 1; got [0]"),
        ("-cc.mode=FUL", "no CompilationMode 'FUL'; did you mean 'FULL'?"),
    ],
)
def test_the_form_that_is_wanted_and_what_was_probably_meant(option: str, said: str) -> None:
    assert refusal(option) == f"{option}: {said}"


@pytest.mark.parametrize("key", KEYS)
def test_what_is_suggested_is_taken(key: str) -> None:
    """For every key, and every value of a wrong form."""
    for text in ("8", "1.5", "true", "null", "yes", "1,2,8", '["8"]', "[[1, 2, 3]]", '{"a": 1}', "[1, 2"):
        try:
            typed(f"-cc.{key}={text}")
        except UsageError as error:
            suggestion = str(error).rpartition("; write ")[2] if "; write " in str(error) else ""
            assert suggestion or "there are: " in str(error), f"{key}={text}: {error}"
            for option in shlex.split(suggestion):
                assert typed(option), error


def test_in_python_it_is_said_as_python_writes_it() -> None:
    with pytest.raises(ConfigError) as raised:
        CompilationConfig(cudagraph_capture_sizes=8)
    assert str(raised.value) == (
        "CompilationConfig.cudagraph_capture_sizes: a list of numbers is wanted, not the number 8; "
        "write cudagraph_capture_sizes=[8]"
    )
    with pytest.raises(ConfigError, match=r"write evaluate_guards=True"):
        DynamicShapesConfig(evaluate_guards="yes")


def test_an_inherited_value_is_told_as_the_option_that_it_stands_for() -> None:
    with pytest.raises(ConfigError) as raised:
        apply_overrides(CompilationConfig(), {"COMPDBG_CC": json.dumps({"compile_sizes": "8"})})
    assert str(raised.value) == (
        "-cc.compile_sizes=8: a list of numbers or 'cudagraph_capture_sizes' is wanted, not the number 8; "
        "write -cc.compile_sizes='[8]'"
    )


@pytest.mark.parametrize(("option", "value"), [("-cc.cache_dir=3", "3"), ('-cc.backend="eager"', "eager")])
def test_where_a_text_is_wanted_a_number_is_one(option: str, value: str) -> None:
    config, _ = apply_overrides(CompilationConfig(), {"COMPDBG_CC": json.dumps(typed(option))})
    assert value in (config.cache_dir, config.backend)


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("bakend", "; did you mean 'backend'?"),
        ("fuse_norm_quant", "; did you mean 'pass_config.fuse_norm_quant'?"),
        ("guards", "; did you mean 'dynamic_shapes_config.evaluate_guards'?"),
        (
            "pass_config.fuse_rms",
            "; did you mean 'pass_config.fuse_allreduce_rms' or 'pass_config.fuse_norm_quant'?",
        ),
        ("pass_config.async_tp", "; did you mean 'pass_config.fuse_gemm_comms'?"),
        ("pass_config.sequence_parallelism", "; did you mean 'pass_config.enable_sp'?"),
        (
            "pass_config.xyz",
            "; there are: pass_config.eliminate_noops, pass_config.enable_all, "
            "pass_config.enable_qk_norm_rope_fusion, ",
        ),
        ("xyz", "; there are: backend, cache_dir, compile_ranges, "),
        ("backend.xyz", "; there are: backend, cache_dir, compile_ranges, "),
    ],
)
def test_an_unknown_key(key: str, said: str) -> None:
    assert refusal(f"-cc.{key}=1").startswith(f"-cc.{key}: no configuration key {key!r}{said}")


def test_keys_below_a_structure_are_not_listed_with_those_beside_it() -> None:
    listed = refusal("-cc.xyz=1").rpartition("there are: ")[2].split(", ")
    assert {"pass_config.KEY", "inductor_compile_config.KEY", "enforce_eager"} <= set(listed)
    assert not any(each.startswith("pass_config.f") for each in listed)


@pytest.mark.parametrize("name", PassConfig.flags())
def test_a_name_with_a_letter_too_few_is_found(name: str) -> None:
    assert near_names(name[:4] + name[5:], PassConfig.flags())[0] == name
