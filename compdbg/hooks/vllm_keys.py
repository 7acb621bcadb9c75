"""The key of vLLM's AOT artifact in the clear, and what we keep of how the artifact was made.

vLLM hashes its environment, its configuration and the model's first line; when nothing is found
under the key it cannot tell why. We keep the parts beside torch's keys (see `cachekeys`), with what
the passes did to each piece, so that a miss is explained and a warm start shows what it runs.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import sys
import zlib
from typing import Any, NamedTuple

import msgspec

from compdbg import probe
from compdbg.events import CachedWork
from compdbg.hooks import artifacts, cachekeys, current
from compdbg.hooks.artifacts import Work
from compdbg.hooks.vllm_config import BOOKKEEPING, NESTED, text_of
from compdbg.record.privacy import safe_environment

LAYER = "vllm"
_OTHER_PARTS = {
    "model_config": ("model", "dtype", "quantization", "max_model_len"),
    "parallel_config": ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size"),
    "scheduler_config": ("max_num_batched_tokens", "max_num_seqs"),
}
"""Settings outside the compilation's own that commonly differ; the rest is in the hash of all."""


class Asked(NamedTuple):
    """A model's look for its artifact: the place that it is known by, the key, and its parts."""

    place: str
    key: str
    factors: dict[str, tuple[str, str]]
    folder: str

    def record(self, work: bytes = b"") -> cachekeys.KeyRecord:
        made = cachekeys.new_record(LAYER, self.place, self.key, self.factors, _run_name(), self.folder)
        return cachekeys.with_work(made, work)


def asked_by(model: Any, key: str) -> Asked:
    cls = type(model)
    code = cls.forward.__code__
    envs = sys.modules["vllm.envs"]
    return Asked(
        place=f"{os.path.basename(code.co_filename)}:{cls.__qualname__}",
        key=key,
        factors={name: (_hash(value), value[: cachekeys.SHOWN]) for name, value in _parts(model, code)},
        folder=cachekeys.redacted(str(envs.VLLM_CACHE_ROOT)),
    )


def _parts(model: Any, code: Any) -> list[tuple[str, str]]:
    config = model.vllm_config
    parts = [
        ("vllm", str(sys.modules["vllm"].__version__)),
        ("torch", str(sys.modules["torch"].__version__)),
        ("model", f"{type(model).__qualname__}.{code.co_name}"),
        ("first line", str(code.co_firstlineno)),
    ]
    parts += _of_environment()
    parts += _of_compilation(config.compilation_config)
    for section, names in _OTHER_PARTS.items():
        held = getattr(config, section, None)
        parts += [(f"{section}.{n}", cachekeys.redacted(text_of(getattr(held, n, None)))) for n in names]
    parts.append(("the whole configuration", str(config.compute_hash())))
    return parts


def _of_environment() -> list[tuple[str, str]]:
    """Variables that are part of the key, where they are set."""
    counted = sys.modules["vllm.envs"].compile_factors()
    shown = safe_environment({name: value for name, value in os.environ.items() if name in counted})
    return [(name, cachekeys.redacted(value)) for name, value in sorted(shown.items())]


def _of_compilation(config: Any) -> list[tuple[str, str]]:
    parts: list[tuple[str, str]] = []
    for prefix, held in (("", config), ("pass_config.", config.pass_config)):
        names = [f.name for f in dataclasses.fields(held) if f.init and f.name not in BOOKKEEPING | NESTED]
        parts += [(prefix + name, text_of(getattr(held, name, None))) for name in names]
    return parts


class Making:
    """An artifact that is being made: the work on its pieces, kept when all are done."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._work: dict[str, Work] = {}

    def note(self, graph: str, piece: str) -> None:
        """`graph` is the name under which passes worked on the piece `submod_0 1-2048`."""
        work = artifacts.decode(artifacts.take(graph))
        if work is not None:
            self._work[piece] = work

    def keep(self) -> None:
        data = zlib.compress(msgspec.json.encode(self._work, enc_hook=str), 1)
        cachekeys.remember(self._asked.record(data))


def tell_work(asked: Asked, prefix: str) -> None:
    """On a hit: what the run that made the artifact saw its passes do, piece by piece."""
    known = cachekeys.recall(LAYER, asked.place, asked.key)
    if known is None:
        cachekeys.remember(asked.record())
        return
    for piece, work in _decoded(known.work).items():
        probe.emit(
            CachedWork(
                layer=LAYER,
                key=asked.key,
                graph=f"{prefix} {piece}",
                run=known.run,
                made=known.made,
                passes=work.passes,
                patterns=work.patterns,
                compile_id=current.compile_id(),
            )
        )


def _decoded(data: bytes) -> dict[str, Work]:
    try:
        return msgspec.json.decode(zlib.decompress(data), type=dict[str, Work]) if data else {}
    except (zlib.error, msgspec.DecodeError):
        return {}


def _hash(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _run_name() -> str:
    lines = getattr(probe.sink(), "lines", None)
    return os.path.basename(str(getattr(lines, "folder", "")))
