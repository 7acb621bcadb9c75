"""`fuse_qkv_projection`: the projections to queries, keys and values as one product."""

from __future__ import annotations

import operator
from collections import defaultdict
from typing import Any

import torch
from torch import Tensor, fx

from compdbg.compiler.ops.projections import merged_projection
from compdbg.compiler.passes.attempts import Attempts, described
from compdbg.compiler.passes.fusion.forms import HALF, TOKENS, WIDTH, variants
from compdbg.compiler.passes.fusion.fusion_pass import FusionPattern
from compdbg.compiler.passes.inductor_pass import InductorPass

aten = torch.ops.aten
PROJECTIONS = 3


class QKVProjectionFusionPass(InductorPass):
    """Three products of one input with weights that are inputs of the graph, which are packed once.

    A product is in every graph everywhere: what is looked for is the input of three, not a pattern.
    """

    looks_for = "aten.mm.default"

    def __init__(self) -> None:
        self._matched_count = 0

    @property
    def matched_count(self) -> int:
        """Groups of projections merged in the graph that ran last."""
        return self._matched_count

    def patterns(self) -> Any:
        """What is put in place of what, for the proof that they are equal."""
        yield FusionPattern(
            pattern=projections,
            replacement=merged,
            inputs=lambda: _make(TOKENS, WIDTH, torch.bfloat16),
            variants=variants(_make, torch.float32, *HALF),
            exclusive=("q", "k", "v"),
        )

    def __call__(self, graph: fx.Graph) -> None:
        self._attempts = Attempts(self.name)
        self._matched_count = 0
        for products in _products(graph):
            group = [product for product in products if _weight_of(product) is not None]
            if len(group) == PROJECTIONS:
                self._attempts.matched(group[0], group)
                _merge(graph, group)
                self._matched_count += 1
            elif len(products) >= PROJECTIONS:
                _tell(self._attempts, products, group)


def _products(graph: fx.Graph) -> list[list[fx.Node]]:
    """All products, by what is multiplied."""
    found: dict[Any, list[fx.Node]] = defaultdict(list)
    for node in graph.nodes:
        if node.op == "call_function" and node.target in (aten.mm.default, aten.addmm.default):
            found[node.args[-2]].append(node)
    return list(found.values())


def _tell(attempts: Attempts, products: list[fx.Node], group: list[fx.Node]) -> None:
    """Why so many products of one input are not three projections. Of two, there is nothing to tell."""
    anchor, *others = products
    nodes = (len(group), PROJECTIONS)
    if len(group) > PROJECTIONS:
        wanted, found = f"{PROJECTIONS} products of one input", f"{len(group)} of {group[0].args[0]}"
        attempts.missed(anchor, group[PROJECTIONS], "multiple-users", wanted, found, others, nodes=nodes)
        return
    odd = next(product for product in products if product not in group)
    if odd.target is not aten.mm.default:
        wanted, found = str(aten.mm.default), f"{odd.target} (a bias)"
        attempts.missed(anchor, odd, "target-mismatch", wanted, found, others, nodes=nodes)
        return
    weight: Any = odd.args[1]
    wanted = "a weight that is an input of the graph, transposed"
    attempts.missed(anchor, odd, "arg-mismatch", wanted, described(weight), others, nodes=nodes)


def _weight_of(product: fx.Node) -> fx.Node | None:
    """The weight of `x @ weight.t()`, if it is there before the call."""
    turned: Any = product.args[1]
    if turned.op != "call_function" or turned.target is not aten.permute.default:
        return None
    weight = turned.args[0]
    return weight if weight.op == "placeholder" and list(turned.args[1]) == [1, 0] else None


def _merge(graph: fx.Graph, group: list[fx.Node]) -> None:
    x: Any = group[0].args[0]
    weights = [_weight_of(product) for product in group]
    values = [product.meta["val"] for product in group]
    with graph.inserting_before(group[0]):
        merged_node = graph.call_function(merged_projection, (x, weights))
        sizes = [value.shape[-1] for value in values]
        parts = graph.call_function(aten.split_with_sizes.default, (merged_node, sizes, -1))
        merged_node.meta["val"] = merged_projection(x.meta["val"], [w.meta["val"] for w in weights if w])
        parts.meta["val"] = aten.split_with_sizes.default(merged_node.meta["val"], sizes, -1)
        for i, product in enumerate(group):
            part = graph.call_function(operator.getitem, (parts, i))
            own = graph.call_function(aten.clone.default, (part,), {"memory_format": torch.contiguous_format})
            part.meta["val"], own.meta = parts.meta["val"][i], dict(product.meta)
            product.replace_all_uses_with(own)
    for product in group:
        graph.erase_node(product)


def projections(x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Any:
    return torch.mm(x, q.t()), torch.mm(x, k.t()), torch.mm(x, v.t())


def merged(x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Any:
    product = merged_projection(x, [q, k, v])
    return tuple(part.contiguous() for part in product.split([q.shape[0], k.shape[0], v.shape[0]], -1))


def _make(tokens: int, width: int, dtype: torch.dtype) -> list[Tensor]:
    rows = (width, width // 2, width // 2)
    return [torch.empty(tokens, width, dtype=dtype), *(torch.empty(n, width, dtype=dtype) for n in rows)]
