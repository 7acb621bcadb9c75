"""The ranks that fusions of collectives are for, and graphs that have none."""

from __future__ import annotations

from collections.abc import Iterable

import torch.distributed as dist
from torch import fx

from compdbg.events.graphs import ONE_RANK


def world() -> str:
    """The name of the group of all ranks, as it stands in graphs."""
    if dist.is_available() and dist.is_initialized():
        return str(dist.group.WORLD.group_name)
    return "0"


def ranks_in(group: str) -> int:
    """How many ranks a group has; one where there are no groups."""
    if not (dist.is_available() and dist.is_initialized()):
        return 1
    return int(dist.get_world_size(dist.distributed_c10d._resolve_process_group(group)))


def nothing_to_gather(graph: fx.Graph, groups: Iterable[str]) -> str:
    """Why a fusion of collectives has nothing to do: a rank by itself, and none in the graph. Else empty."""
    alone = all(ranks_in(group) == 1 for group in groups)
    if not alone or any("_c10d_functional" in str(node.target) for node in graph.nodes):
        return ""
    return f"{ONE_RANK} there is no all-reduce in the graph"
