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
from compdbg.compiler.passes.fusion.parts import replace_by_part, takes_parts
from compdbg.compiler.passes.inductor_pass import InductorPass, is_weight

aten = torch.ops.aten
PROJECTIONS = 3
_merged: dict[Any, Any] = {}


def register_merged_product(product: Any, merged: Any) -> None:
    """Say that one operator does for several weights at once what another does for one.

    `merged` has the arguments of `product`, but lists of tensors for those that have a row for each
    column of the result: a weight, its scales. The result has all columns, in the order of the lists.
    """
    _merged[product] = merged


class QKVProjectionFusionPass(InductorPass):
    """Three products of one input with weights of the model, which are packed once.

    A product is in every graph everywhere: what is looked for is the input of three, not a pattern.
    Besides torch's own, products are operators that `register_merged_product` knows.
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
    """All products, by all that they have in common: what is multiplied, and how."""
    found: dict[Any, list[fx.Node]] = defaultdict(list)
    for node in graph.nodes:
        if node.op != "call_function":
            continue
        if node.target in (aten.mm.default, aten.addmm.default):
            found[node.args[-2]].append(node)
        elif node.target in _merged:
            listed = _listed_arguments(node.target)
            others = (repr(arg) for i, arg in enumerate(node.args) if i not in listed)
            found[node.target, *others, repr(node.kwargs)].append(node)
    return list(found.values())


def _listed_arguments(product: Any) -> list[int]:
    """The places of arguments of which the merged product takes several."""
    types = [[str(argument.type) for argument in op._schema.arguments] for op in (product, _merged[product])]
    return [i for i, (one, several) in enumerate(zip(*types, strict=True)) if one != several]


def _tell(attempts: Attempts, products: list[fx.Node], group: list[fx.Node]) -> None:
    """Why so many products of one input are not three projections. Of two, there is nothing to tell."""
    anchor, *others = products
    nodes = (len(group), PROJECTIONS)
    if len(group) > PROJECTIONS:
        wanted, found = f"{PROJECTIONS} products of one input", f"{len(group)} of {group[0].args[0]}"
        attempts.missed(anchor, group[PROJECTIONS], "multiple-users", wanted, found, others, nodes=nodes)
        return
    odd = next(product for product in products if product not in group)
    if odd.target is aten.addmm.default:
        wanted, found = str(aten.mm.default), f"{odd.target} (a bias)"
        attempts.missed(anchor, odd, "target-mismatch", wanted, found, others, nodes=nodes)
        return
    unfit = next((given for given in _given(odd) if not is_weight(given)), None)
    if unfit is not None and unfit.op == "placeholder":
        wanted = "is_weight to accept it: a parameter or buffer that the graph does not write to"
        attempts.missed(anchor, odd, "extra-check", wanted, described(unfit), others, nodes=nodes)
        return
    weight: Any = odd.args[1] if unfit is None and len(odd.args) > 1 else unfit
    wanted = "a weight that is an input of the graph, transposed"
    attempts.missed(anchor, odd, "arg-mismatch", wanted, described(weight), others, nodes=nodes)


def _weight_of(product: fx.Node) -> fx.Node | None:
    """The weight of `x @ weight.t()`, if it is one that can be packed with others once and for all."""
    given = _given(product)
    return given[0] if given and all(map(is_weight, given)) else None


def _given(product: fx.Node) -> list[Any]:
    """What a product would be packed from: the weight first. Nothing, where it is no `x @ weight.t()`."""
    if product.target in _merged:
        listed = _listed_arguments(product.target)
        return [product.args[i] for i in listed] if max(listed) < len(product.args) else []
    turned: Any = product.args[1]
    if product.target is not aten.mm.default or turned.target is not aten.permute.default:
        return []
    return [turned.args[0]] if list(turned.args[1]) == [1, 0] else []


def _call_for(group: list[fx.Node]) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """The operator that takes the place of all, and its arguments."""
    first = group[0]
    if first.target not in _merged:
        return merged_projection, (first.args[0], [_weight_of(product) for product in group]), {}
    listed = _listed_arguments(first.target)
    args = enumerate(first.args)
    given = ([product.args[i] for product in group] if i in listed else arg for i, arg in args)
    return _merged[first.target], tuple(given), dict(first.kwargs)


def _merge(graph: fx.Graph, group: list[fx.Node]) -> None:
    target, args, kwargs = _call_for(group)
    values = [product.meta["val"] for product in group]
    sizes = [value.shape[-1] for value in values]
    with graph.inserting_before(group[0]):
        merged_node = graph.call_function(target, args, kwargs)
        given, named = fx.map_arg((args, kwargs), lambda node: node.meta["val"])
        merged_node.meta["val"] = target(*given, **named)
        parts = graph.call_function(aten.split_with_sizes.default, (merged_node, sizes, -1))
        parts.meta["val"] = aten.split_with_sizes.default(merged_node.meta["val"], sizes, -1)
        taken = [graph.call_function(operator.getitem, (parts, i)) for i in range(len(group))]
    for product, part, value in zip(group, taken, parts.meta["val"], strict=True):
        part.meta["val"] = value
        if takes_parts(product):
            replace_by_part(product, part)
        else:
            with graph.inserting_before(group[0]):
                like = {"memory_format": torch.contiguous_format}
                own = graph.call_function(aten.clone.default, (part,), like)
            own.meta = dict(product.meta)
            own.meta.pop("eager_input_vals", None)  # those of a product
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
