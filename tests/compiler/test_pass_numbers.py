"""Passes of one graph have a number each, in the order in which they began, whoever ran them."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from torch import nn

import tests.compiler.passes_only  # noqa: F401
from compdbg.compiler import CompilationConfig, support_torch_compile, use_config
from compdbg.events import PassRun
from compdbg.views.base import Source
from compdbg.views.passes import passes
from tests.unit.test_pipeline_model import run_of

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")]


@support_torch_compile(dynamic_arg_dims={"x": 0})
class Model(nn.Module):
    def forward(self, x):
        return x.sin() * x


def test_a_pass_that_was_skipped_counts_like_those_that_ran(record_here):
    compilation = CompilationConfig(
        backend="passes-only",
        pass_config={"enable_all": True},
        disable_cache=True,
    )
    with record_here() as run, use_config(compilation), torch.inference_mode():
        Model()(torch.randn(4, 8))
    ran = [p for p in run.load().passes if p.graph.startswith("Model")]
    assert [count for count in Counter(p.index for p in ran).values() if count > 1] == []
    by_name = {p.name: p for p in ran}
    skipped, before = by_name["SequenceParallelismPass"], by_name["FoldBlocksPass"]
    assert skipped.disabled_by == "one rank: there is no all-reduce in the graph"
    assert (skipped.within, skipped.index) == (by_name["post_grad_custom_post_pass"].index, before.index + 2)


def test_graphs_of_one_name_in_two_processes_are_told_apart():
    def ran(name, index):
        return PassRun(pass_name=name, graph="0/0", index=index, changed=True, op_delta={"aten.add": 1})

    view = passes(Source(run_of(("a", ran("first", 0)), ("b", ran("first", 0)), ("a", ran("then", 1))), []))
    graph, number, name = (column.cell for column in view.columns[:3])
    assert [(graph(row), number(row), name(row)) for row in view.shown] == [
        ("0/0 of process a", "0", "first"),
        ("0/0 of process a", "1", "then"),
        ("0/0 of process b", "0", "first"),
    ]
