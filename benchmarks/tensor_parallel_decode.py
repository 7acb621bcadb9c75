"""The decoder of `decode_step`, one rank's share of it."""

from __future__ import annotations

import torch

from benchmarks.decode_step import Bench
from compdbg.compiler import CompilationConfig, use_config
from fixtures.models import SIZES, CausalLM
from fixtures.models.attention import OPERATOR
from fixtures.models.metadata import BLOCK
from fixtures.models.parallel import shard


class ParallelBench(Bench):
    """Every rank makes the whole model from one seed and keeps its share."""

    def __init__(
        self,
        device: str,
        rank: int,
        ranks: int,
        batches: list[int],
        flags: dict[str, bool],
        *,
        small: bool = False,
    ) -> None:
        shape = SIZES["toy" if small else "700m"]
        self.device, self.context, self.vocab = device, 20 if small else 128, shape.vocab
        self.blocks_each = -(-(self.context + 1) // BLOCK)
        self.config = CompilationConfig(
            splitting_ops=[OPERATOR],
            cudagraph_mode="FULL_AND_PIECEWISE",
            cudagraph_capture_sizes=batches,
            pass_config=flags,
            disable_cache=True,
        )
        dtype = torch.float32 if device == "cpu" else torch.bfloat16
        with use_config(self.config):
            whole = CausalLM.random(
                shape, blocks=1 + max(batches) * self.blocks_each, device=device, dtype=dtype
            )
        self.model = shard(whole, rank, ranks)
