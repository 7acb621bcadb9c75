"""The names that were probably meant by one that is not there."""

from __future__ import annotations

import difflib
import math
from collections import Counter
from collections.abc import Iterable, Sequence

_TYPO = 0.8
"""At least so much alike, one name is a misspelling of the other."""
_ALIKE = 0.65
_SHARED = 0.35
_MOST = 3
_STANDS_FOR = {
    "fuse_norm_quant": "rms rmsnorm layernorm",
    "fuse_act_quant": "activation silu mul gelu swiglu",
    "fuse_rope_kvcache": "rotary kv cache",
    "enable_qk_norm_rope_fusion": "rms rotary",
    "fuse_qkv_projection": "q k v linear merge",
    "fuse_attn_quant": "attention",
    "fuse_allreduce_rms": "all reduce norm rmsnorm",
    "enable_sp": "sequence parallel parallelism",
    "fuse_gemm_comms": "async tp asynctp matmul",
    "eliminate_noops": "noop reshape view",
}
"""What people look for under other words than the name's own."""


def nearest(name: str, known: Iterable[str], *, few: bool = True) -> str:
    """`; did you mean 'x' or 'y'?`, or when none is near the names that there are, if these are few."""
    names = sorted(known)
    close = near_names(name, names)
    if close:
        said = [repr(each) for each in close]
        return f"; did you mean {' or '.join(filter(None, [', '.join(said[:-1]), said[-1]]))}?"
    return f"; there are: {', '.join(names)}" if names and few else ""


def near_names(name: str, known: Sequence[str]) -> list[str]:
    """The one that `name` is a misspelling or a part of, else some that share rare words with it.

    Names are compared by what stands after their last dot: `pass_config.` is no likeness.
    """
    wanted = _leaf(name)
    alike = {each: difflib.SequenceMatcher(None, wanted, _leaf(each)).ratio() for each in known}
    by_likeness = sorted(known, key=lambda each: (-alike[each], each))
    typos = [each for each in by_likeness if alike[each] >= _TYPO]
    wholes = [each for each in by_likeness if len(wanted) > 2 and wanted in _leaf(each)]
    if typos or wholes:
        return (typos[:1] or wholes)[:_MOST]
    shared = _shared_words(wanted, known)
    related = [each for each in known if shared[each] >= _SHARED or alike[each] >= _ALIKE]
    return sorted(related, key=lambda each: (-shared[each] - alike[each], each))[:_MOST]


def _leaf(name: str) -> str:
    return name.lower().rpartition(".")[2]


def _shared_words(wanted: str, known: Sequence[str]) -> dict[str, float]:
    """How many of the words of `wanted` each name has; one that many names have counts less."""
    words = {each: {*_leaf(each).split("_"), *_STANDS_FOR.get(_leaf(each), "").split()} for each in known}
    often = Counter(word for each in known for word in words[each])
    mine = set(wanted.split("_"))
    return {
        each: sum(1 / math.sqrt(often[word]) for word in mine & words[each]) / len(mine) for each in known
    }
