"""Memory that the ranks of one host write to directly: where rows meet that are to be summed.

Each rank has a place for each row, three deep, for what its peers send. An empty place holds
`EMPTY` in each element, which is never sent: a value has come when its element differs, with no flag
and no fence. In its n-th use a row takes the (n mod 3)-th of its places, and the one before is emptied:
by the time a peer can write there again, two uses later, this rank must have told it twice that it went on.
"""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from compdbg import probe
from compdbg.events.pipeline import ConfigValue

LARGEST = 8 << 20
"""Bytes that may be summed in one call; three times that is kept for each peer."""
MOST_RANKS = 8
DEPTH = 3
LINE = 128
"""Rows start at multiples of so many bytes."""


MINUS_ZERO_PAIR = -0x7FFF8000
EMPTY = {torch.bfloat16: -0x8000, torch.float16: -0x8000, torch.float32: MINUS_ZERO_PAIR}
"""What an empty place holds, as an integer of the dtype's size: the same bits for all.

In 16 bits it is -0.0, in 32 the number -4.6e-41. Zero is sent in its stead.
"""


@dataclass(frozen=True)
class Workspace:
    """One rank's view of a group's places for rows of one length."""

    rank: int
    ranks: int
    rows: int
    stride: int
    """Bytes from one place to the next."""
    places: tuple[int, ...]
    """Where each rank's memory stands in this process, by rank."""
    turns: Tensor
    """For each row, which of its three places comes next."""
    kept: Any
    """What must live as long as the addresses."""


def places_bytes(ranks: int, rows: int, stride: int) -> int:
    """How much memory each rank shares."""
    return DEPTH * rows * (ranks - 1) * stride


def capacity(width_bytes: int) -> tuple[int, int]:
    """How many rows fit, and the bytes from one to the next."""
    stride = -(-width_bytes // LINE) * LINE
    return LARGEST // stride, stride


_workspaces: dict[tuple[str, int], tuple[dist.ProcessGroup, Workspace | str]] = {}
_told: set[tuple[str, str, str]] = set()
"""Run, group and reason."""


def workspace(x: Tensor, ranks: str) -> Workspace | None:
    """Where the rows of `x` meet those of the other ranks, or None if they can't: then the group sums.

    All ranks come to the same answer. The first call for a row length waits for all of them.
    """
    found = _found(x, ranks)
    if isinstance(found, Workspace):
        return found
    if (told := (probe.run_name(), ranks, found)) not in _told:
        _told.add(told)
        probe.emit(
            ConfigValue(
                key="fuse_allreduce_rms.collective",
                requested="symmetric memory",
                effective="the process group's all-reduce",
                changed_by="compdbg.compiler",
                why=found,
            )
        )
    return None


def _found(x: Tensor, ranks: str) -> Workspace | str:
    """The workspace, or why there is none."""
    if x.dtype not in EMPTY:
        return f"rows are {x.dtype}"
    length = x.shape[-1] * x.dtype.itemsize
    group = torch.distributed.distributed_c10d._resolve_process_group(ranks)
    made_for, found = _workspaces.get((ranks, length), (None, ""))
    if made_for is not group:  # a name may be used again, for another group
        if x.is_cuda and torch.cuda.is_current_stream_capturing():
            return f"rows of {length} bytes were first met in a capture; call once before it"
        found = _made(ranks, group, length, x.device)
        _workspaces[ranks, length] = group, found
    if isinstance(found, Workspace) and x.numel() > found.rows * x.shape[-1]:
        return f"more than {found.rows} rows of {length} bytes at a time"
    return found


def _made(ranks: str, group: dist.ProcessGroup, length: int, device: torch.device) -> Workspace | str:
    count = dist.get_world_size(group)
    if switched_off():
        return "COMPDBG_SYMMETRIC_MEMORY=0"
    if not 1 < count <= MOST_RANKS:
        return "one rank" if count == 1 else f"{count} ranks"
    rows, stride = capacity(length)
    if not rows:
        return f"rows of {length} bytes are too long"
    hosts = set(_of_all(_host(), group))
    if len(hosts) > 1:
        return f"the ranks are on {len(hosts)} hosts"
    made = _shared(ranks, group, rows, stride, device)
    failures = [each for each in _of_all(made if isinstance(made, str) else "", group) if each]
    return failures[0] if failures else made


def switched_off() -> bool:
    """Whether the environment says that groups are to sum by their own all-reduce."""
    return os.environ.get("COMPDBG_SYMMETRIC_MEMORY") == "0"


def _of_all(mine: str, group: dist.ProcessGroup) -> list[str]:
    found: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(found, mine, group=group)
    return found


@functools.cache
def _host() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return os.uname().nodename


def _shared(
    ranks: str, group: dist.ProcessGroup, rows: int, stride: int, device: torch.device
) -> Workspace | str:
    """The memory, or why there is none."""
    import torch.distributed._symmetric_memory as symmetric

    count = dist.get_world_size(group)
    try:
        shared = symmetric.empty(places_bytes(count, rows, stride) // 4, dtype=torch.int32, device=device)
        shared.fill_(MINUS_ZERO_PAIR)
        turns = torch.zeros(rows, dtype=torch.int32, device=device)
        torch.cuda.synchronize(device)
        handle = symmetric.rendezvous(shared, ranks)
        # Buffers start where a tensor's storage does; the tensor need not.
        places = tuple(
            handle.get_buffer(rank, (shared.numel(),), torch.int32).data_ptr() for rank in range(count)
        )
    except RuntimeError as error:
        return f"no symmetric memory: {str(error).splitlines()[0]}"
    return Workspace(dist.get_rank(group), count, rows, stride, places, turns, (shared, handle))
