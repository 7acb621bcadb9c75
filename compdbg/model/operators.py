"""Which operators compute something, by the names that graphs have for them."""

from __future__ import annotations

ALLOCATIONS = frozenset(
    ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_permuted")
)
VIEWS = frozenset(
    ("view", "reshape", "unsqueeze", "squeeze", "transpose", "permute", "expand", "expand_as", "t",
     "getitem", "flatten", "unflatten", "detach", "alias", "view_as", "reshape_as", "split", "chunk",
     "unbind", "select", "narrow", "size", "sym_size", "getattr", "slice", "as_strided", "numel", "dim",
     "split_with_sizes", "split_with_sizes_copy", "sym_numel", "sym_stride", "stride", "Size")
)  # fmt: skip


def short(name: str) -> str:
    """`view` of `aten::view.default`."""
    return name.rpartition("::")[2].partition(".")[0]


def allocates(name: str) -> bool:
    return short(name) in ALLOCATIONS


def computes(name: str) -> bool:
    """Neither an allocation nor a view nor a look at a size."""
    return short(name) not in ALLOCATIONS and short(name) not in VIEWS
