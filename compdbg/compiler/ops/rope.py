"""Rotary positions: alone, after the norm of queries and keys, and with the update of the cache."""

from __future__ import annotations

import torch
from torch import Tensor

from compdbg.compiler.ops.define import block


def rotate(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool = False) -> Tensor:
    """`x` of (tokens, heads, head_dim), turned by angles of (tokens, 1, head_dim).

    Pairs are (i, i + head_dim/2) as in GPT-NeoX and Llama, or interleaved (2i, 2i + 1) as in GPT-J.
    """
    if interleaved:
        other = torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)
    else:
        first, second = x.chunk(2, -1)
        other = torch.cat((-second, first), -1)
    return x * cos + other * sin


rotation = block("rotate(Tensor x, Tensor cos, Tensor sin, bool interleaved) -> Tensor", rotate)
