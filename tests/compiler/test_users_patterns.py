"""Fusions of the user's own, of parts of a decoder: where they fire at each, nothing else is a miss."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

import tests.compiler.passes_only  # noqa: F401
from compdbg.compiler import CompilationConfig, FusionPass, set_forward_context, use_config
from compdbg.compiler.ops.norms import rms_norm
from compdbg.compiler.ops.rope import rotate
from compdbg.findings.collect import find_all
from fixtures.models import CausalLM, ModelConfig
from fixtures.models.attention import OPERATOR
from fixtures.models.metadata import metadata_of

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")]
TINY = ModelConfig(layers=2, width=128, ffn=256, heads=4, kv_heads=2, head_dim=32)
TOKENS = 17


class Gate(FusionPass):
    def pattern(self, x, up):
        return F.silu(x) * up

    def replacement(self, x, up):
        return x.exp2() + up

    def inputs(self):
        return [torch.empty(4, 8), torch.empty(4, 8)]


class Norm(FusionPass):
    def pattern(self, x, weight):
        return rms_norm(x, weight, 1e-5)

    def replacement(self, x, weight):
        return x.exp2() + weight

    def inputs(self):
        return [torch.empty(4, 8), torch.empty(8)]


class Rotation(FusionPass):
    def pattern(self, x, cos, sin):
        return rotate(x, cos, sin)

    def replacement(self, x, cos, sin):
        return x.exp2() + cos + sin

    def inputs(self):
        return [torch.empty(4, 2, 8), torch.empty(4, 1, 8), torch.empty(4, 1, 8)]


class ScaledSum(FusionPass):
    """Of two rotations a layer; sums with the residual, of products that are scaled further up, are none."""

    def pattern(self, x, scale, y):
        return x * scale + y

    def replacement(self, x, scale, y):
        return x.exp2() + scale + y

    def inputs(self):
        return [torch.empty(4, 2, 8), torch.empty(4, 1, 8), torch.empty(4, 2, 8)]


@pytest.mark.parametrize(("fusion", "matches"), [(Gate, 2), (Norm, 5), (Rotation, 4), (ScaledSum, 4)])
@pytest.mark.parametrize("changes", [{}, pytest.param({"experts": 4}, marks=pytest.mark.slow)], ids=str)
def test_what_fires_everywhere_has_missed_nothing(fusion, matches, changes, record_here):
    config = CompilationConfig(
        backend="passes-only",
        splitting_ops=[OPERATOR],
        inductor_passes=[fusion()],
        disable_cache=True,
    )
    with record_here() as run, use_config(config), torch.inference_mode():
        model = CausalLM.random(TINY.with_(**changes))
        with set_forward_context(metadata_of([(0, TOKENS, [1, 2])], 2)):
            model(torch.arange(TOKENS), torch.arange(TOKENS))
    whole = run.fusion[fusion.__name__]
    assert (whole.outcome, whole.matched, whole.left) == ("fired", matches, 0), whole
    assert [finding.title for finding in find_all(run.load()) if finding.severity != "info"] == []
