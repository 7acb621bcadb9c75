"""No fusion takes what only looks like its pattern, and each look-alike is told for what it is."""

from __future__ import annotations

import pytest
from torch import fx

from compdbg import probe
from compdbg.compiler.passes.fusion.fusion_pass import FusionPass, register_forms
from compdbg.compiler.passes.fusion.proof import all_fusions
from compdbg.compiler.passes.utility.blocks import FoldBlocksPass, fold
from tests.compiler.lookalikes import NUMBER, lookalikes, original

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")]
SLOW = ("SequenceParallelismPass", "AllReduceRMSNormFusionPass")
"""Fusions of the forms that `RMSNormQuantFusionPass` has too, behind an all-reduce."""
FUSIONS = [
    pytest.param(fusion, id=fusion.name, marks=[pytest.mark.slow] if fusion.name in SLOW else [])
    for fusion in all_fusions()
    if isinstance(fusion, FusionPass)
]
BLOCKS = list(FoldBlocksPass().patterns())


@pytest.mark.parametrize("fusion", FUSIONS)
def test_every_lookalike_of_a_fusion_is_a_miss_with_its_reason(fusion, record_here):
    wanted = {}
    with record_here() as run:
        for form in fusion.patterns():
            matcher = register_forms(form.name, [form])
            for lookalike in lookalikes(form):
                name = f"{form.name}: {lookalike.change}"
                with probe.compiling_graph(name):
                    assert matcher.apply(lookalike.graph) == 0, name
                wanted[name] = ("missed", lookalike.reason)
            with probe.compiling_graph(form.name):
                assert matcher.apply(original(form).graph) == 1
    found = {row.graph: (row.outcome, row.reason) for row in run.load().fusion.rows if row.graph in wanted}
    assert {name: found[name] for name in wanted} == wanted
    assert len({reason for _, reason in wanted.values()}) >= 4


@pytest.mark.parametrize(
    "form",
    [
        pytest.param(f, id=f"{i}", marks=[] if i % 5 == 0 else [pytest.mark.slow])
        for i, f in enumerate(BLOCKS)
    ],
)
def test_no_lookalike_of_a_block_is_folded(form):
    matcher = register_forms("block", [form])
    for lookalike in lookalikes(form):
        of_dtypes = lookalike.reason == "extra-check" and not lookalike.change.startswith(NUMBER)
        if not of_dtypes:  # a block is what it is in any dtypes
            assert folded(matcher, lookalike.graph) == 0, lookalike.change
    assert folded(matcher, original(form).graph) == 1


def folded(matcher, graph: fx.Graph) -> int:
    before = sum("compdbg" in str(node.target) for node in graph.nodes)
    fold(matcher, graph)
    return sum("compdbg" in str(node.target) for node in graph.nodes) - before
