"""`enable_sp`: norms after an all-reduce are worked out by each rank for its share of the tokens.

An all-reduce is a reduce-scatter and an all-gather. What stands between the two, the sum with the
residual, the norm and its quantisation, then is done once in place of once on every rank, and what
is gathered is smaller where it is quantised.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, fx

from compdbg.compiler.ops.norms import norm
from compdbg.compiler.ops.quant import dynamic_quant, static_quant
from compdbg.compiler.ops.shared_rows import all_gather_rows, own_rows, reduce_scatter_rows
from compdbg.compiler.passes.fusion.allreduce_rms_fusion import Replacements, reduced_norm_forms
from compdbg.compiler.passes.fusion.fusion_pass import FusionPass, FusionPattern
from compdbg.compiler.passes.fusion.ranks import nothing_to_gather, ranks_in, world
from compdbg.compiler.ranges import Range
from compdbg.events.graphs import LEFT_TO_OTHERS


class SequenceParallelismPass(FusionPass):
    """For the group of all ranks, or the `groups` named. Ranges with fewer tokens than ranks are skipped.

    The residual stays shared out from one norm of a graph to the next. Ranges that begin below
    `from_tokens` are left to other passes.
    """

    def __init__(self, groups: tuple[str, ...] | None = None, from_tokens: int = 0) -> None:
        super().__init__()
        self.groups = (world(),) if groups is None else groups
        self.from_tokens = from_tokens

    def patterns(self) -> Iterator[FusionPattern]:
        for ranks in self.groups:
            yield from reduced_norm_forms(ranks, _shared_out(ranks_in(ranks)))

    def is_applicable_for_range(self, compile_range: Range) -> bool:
        enough = compile_range.high >= max(map(ranks_in, self.groups))
        return enough and compile_range.low >= self.from_tokens

    def refusal(self, graph: fx.Graph, compile_range: Range) -> str:
        if why := nothing_to_gather(graph, self.groups):
            return why
        if compile_range.low < self.from_tokens:
            begins = f"the range {compile_range} begins below {self.from_tokens} tokens"
            return f"{LEFT_TO_OTHERS} fuse_allreduce_rms: {begins}"
        return super().refusal(graph, compile_range)

    def __call__(self, graph: fx.Graph) -> None:
        super().__call__(graph)
        for node in graph.find_nodes(op="call_function", target=own_rows):
            _keep_shared(graph, node)
        for node in graph.find_nodes(op="call_function", target=torch.ops.aten.sym_size.int):
            _size_of_input(graph, node)


def _keep_shared(graph: fx.Graph, own: fx.Node) -> None:
    """A rank's share of what was just gathered is what the rank had."""
    gathered: Any = own.args[0]
    if gathered.target is all_gather_rows and gathered.args[2:] == own.args[1:]:
        own.replace_all_uses_with(gathered.args[0])
        graph.erase_node(own)
        if not gathered.users:
            graph.erase_node(gathered)


def _size_of_input(graph: fx.Graph, size: fx.Node) -> None:
    """The number of rows is an input's too: no product or gathered sum is there for its size alone."""
    wanted = str(size.meta["val"])
    for node in graph.find_nodes(op="placeholder"):
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt) and str(value) == wanted:
            size.replace_all_uses_with(node)
            graph.erase_node(size)
            return
        if isinstance(value, Tensor) and wanted in map(str, value.shape):
            size.args = (node, [str(each) for each in value.shape].index(wanted))
            return


def _shared_out(count: int) -> Replacements:
    def total_of(x: Tensor, residual: Tensor, ranks: str) -> Tensor:
        return reduce_scatter_rows(x, count, ranks) + own_rows(residual, count, ranks)

    def gathered(x: Tensor, ranks: str, *shares: Tensor) -> tuple[Tensor, ...]:
        return tuple(all_gather_rows(each, x.shape[0], count, ranks) for each in shares)

    def plain(x: Tensor, residual: Tensor, weight: Tensor, eps: float, style: int, ranks: str) -> Any:
        total = total_of(x, residual, ranks)
        return gathered(x, ranks, norm(total, weight, eps, style), total)

    def static(  # noqa: PLR0913, PLR0917
        x: Tensor,
        residual: Tensor,
        weight: Tensor,
        scale: Tensor,
        eps: float,
        style: int,
        to: torch.dtype,
        ranks: str,
    ) -> Any:
        total = total_of(x, residual, ranks)
        return gathered(x, ranks, static_quant(norm(total, weight, eps, style), scale, to), total)

    def dynamic(  # noqa: PLR0913, PLR0917
        x: Tensor,
        residual: Tensor,
        weight: Tensor,
        eps: float,
        style: int,
        group: int,
        to: torch.dtype,
        ranks: str,
    ) -> Any:
        total = total_of(x, residual, ranks)
        return gathered(x, ranks, *dynamic_quant(norm(total, weight, eps, style), group, to), total)

    return Replacements(plain, static, dynamic)
