"""Configuration from outside the program: `-cc.KEY=VALUE` of `compdbg run`, and the environment.

`-cc.` wins over what the program says; an environment variable wins over defaults only, except
for the switches that exist to turn something off.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from compdbg.compiler.config import CompilationConfig, CompilationMode, CUDAGraphMode
from compdbg.compiler.config_values import ConfigError, Strict, WrongValue, field_type, from_text, shown
from compdbg.compiler.near_names import near_names, nearest

CC = "COMPDBG_CC"
"""A JSON object: dotted key -> the value's text, as `compdbg run` passes it on."""


class Change(NamedTuple):
    """One value that is not in effect as it was asked for, or that someone else than the program set."""

    key: str
    requested: str
    effective: str
    by: str
    why: str


class Variable(NamedTuple):
    """An environment variable, its name in vLLM, and what it sets."""

    name: str
    seed: str
    key: str
    value: Any = None
    """Set this when the variable is `1` or `true`; None: set the variable's text."""
    wins: bool = False
    """Also over what the program says."""


VARIABLES: tuple[Variable, ...] = (
    Variable("COMPDBG_CACHE_DIR", "VLLM_CACHE_ROOT", "cache_dir"),
    Variable("COMPDBG_DISABLE_COMPILE_CACHE", "VLLM_DISABLE_COMPILE_CACHE", "disable_cache", True, wins=True),
    Variable("COMPDBG_DEBUG_DUMP_PATH", "VLLM_DEBUG_DUMP_PATH", "debug_dump_path"),
    Variable("COMPDBG_USE_STANDALONE_COMPILE", "VLLM_USE_STANDALONE_COMPILE", "use_standalone_compile"),
)

_SHORTHANDS: dict[str, dict[str, Any]] = {
    "enforce_eager": {"mode": CompilationMode.NONE, "cudagraph_mode": CUDAGraphMode.NONE},
}


def apply_overrides(
    config: CompilationConfig, environment: Mapping[str, str] | None = None
) -> tuple[CompilationConfig, list[Change]]:
    """The configuration with everything from outside applied, and what that changed."""
    outside = os.environ if environment is None else environment
    changes: list[Change] = []
    for variable in VARIABLES:
        config = _from_variable(config, variable, outside, changes)
    for key, text in command_line(outside).items():
        check_key(key)
        for name, value in (_SHORTHANDS.get(key) or {key: value_of(key, text)}).items():
            if key in _SHORTHANDS and from_text(text) in (False, 0):
                continue
            flag = f"-cc.{key}" if key not in _SHORTHANDS else f"--{key.replace('_', '-')}"
            config = _set(config, name, value, f"{flag}={text}", "set on the command line", changes)
    return config, changes


def command_line(environment: Mapping[str, str]) -> dict[str, str]:
    """The `-cc.` pairs of this process."""
    text = environment.get(CC, "")
    if not text:
        return {}
    try:
        pairs = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"{CC} is no JSON object: {error}") from None
    if not isinstance(pairs, dict):
        raise ConfigError(f"{CC} is no JSON object of key -> value: {text}")
    return {str(key): value if isinstance(value, str) else json.dumps(value) for key, value in pairs.items()}


def check_key(key: str) -> None:
    """Raise ConfigError, with the nearest valid key, for a `-cc.` key that does not exist."""
    if key in _SHORTHANDS:
        return
    known = sorted([*all_keys(CompilationConfig), *_SHORTHANDS])
    if key not in known and key.partition(".")[0] != "inductor_compile_config":
        raise ConfigError(f"no configuration key {key!r}{_nearest_key(key, known)}")


def _nearest_key(key: str, known: list[str]) -> str:
    """What was probably meant, of the same structure or of another; else the keys of that structure."""
    owners = {each: each.rpartition(".")[0] for each in known}
    owner = key.rpartition(".")[0]
    beside = [each for each in known if owners[each] == (owner if owner in owners.values() else "")]
    for keys in (beside, known):
        if near_names(key, keys):
            return nearest(key, keys)
    structures = {*owners.values(), "inductor_compile_config"}
    return nearest("", [f"{each}.KEY" if each in structures else each for each in beside])


def value_of(key: str, text: str) -> Any:
    """The value of a `-cc.` key from its text, as far as the key's type decides that."""
    owner: Any = CompilationConfig
    *names, last = key.split(".")
    for name in names:
        owner = field_type(owner, name)
        if not (isinstance(owner, type) and issubclass(owner, Strict)):
            return from_text(text)
    return from_text(text, field_type(owner, last))


def all_keys(cls: type[Strict], prefix: str = "") -> list[str]:
    """Every dotted key, nested structures opened."""
    keys: list[str] = []
    for name in cls.__struct_fields__:
        declared = field_type(cls, name)
        if isinstance(declared, type) and issubclass(declared, Strict):
            keys += all_keys(declared, f"{prefix}{name}.")
        keys.append(prefix + name)
    return keys


def get(config: Strict, key: str) -> Any:
    """The value at a dotted key."""
    value: Any = config
    for name in key.split("."):
        value = value.get(name) if isinstance(value, dict) else getattr(value, name)
    return value


def replaced(config: CompilationConfig, key: str, value: Any) -> CompilationConfig:
    """A copy with the value at a dotted key replaced; checked like any other."""
    check_key(key)
    return _replaced(config, key.split("."), value)  # type: ignore[no-any-return]


def _replaced(owner: Any, path: list[str], value: Any) -> Any:
    name, *rest = path
    if isinstance(owner, dict):
        return {**owner, ".".join(path): value}
    if rest:
        value = _replaced(getattr(owner, name), rest, value)
    return msgspec.structs.replace(owner, **{name: value})


def _from_variable(
    config: CompilationConfig, variable: Variable, outside: Mapping[str, str], changes: list[Change]
) -> CompilationConfig:
    name = next((n for n in (variable.name, variable.seed) if outside.get(n)), None)
    if name is None:
        return config
    value: Any = outside[name]
    if variable.value is not None:
        if value.lower() in ("0", "false"):
            return config
        value = variable.value
    elif isinstance(get(CompilationConfig(), variable.key), bool):
        value = value.lower() not in ("0", "false")
    untouched = get(config, variable.key) == get(CompilationConfig(), variable.key)
    if not (untouched or variable.wins):
        return config
    return _set(config, variable.key, value, name, "set in the environment", changes)


def _set(
    config: CompilationConfig, key: str, value: Any, by: str, why: str, changes: list[Change]
) -> CompilationConfig:
    before = get(config, key) if key in all_keys(CompilationConfig) else None
    try:
        config = replaced(config, key, value)
    except WrongValue as error:
        raise ConfigError(f"{by}: {error.what}{error.as_option(f'-cc.{key}')}") from None
    after = get(config, key)
    changes.append(Change(key, shown(before), shown(after), by, why))
    return config
