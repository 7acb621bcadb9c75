"""Every fusion is proved; what a broken one is told; a pass that is not for a graph says so once."""

from __future__ import annotations

import pytest
import torch

from compdbg.compiler import CompilationConfig, FusionPass
from compdbg.compiler.effective import resolve
from compdbg.compiler.ops import norms
from compdbg.compiler.passes.fusion import proof
from compdbg.compiler.passes.fusion.proof import Proof, all_fusions, prove, proved
from compdbg.compiler.passes.inductor_pass import pass_context
from compdbg.compiler.passes.pass_manager import PostGradPassManager, available_passes
from compdbg.compiler.ranges import Range
from compdbg.doctor.fusions import judge
from compdbg.events import PassRun
from compdbg.findings.collect import find_all
from tests.compiler.test_passes import NormDoubled, traced

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")]


@pytest.mark.parametrize("fusion", all_fusions(), ids=lambda fusion: fusion.name)
def test_every_fusion_finds_itself_and_equals_what_it_replaces(fusion):
    assert proved(fusion).problems == []


class Rounded(FusionPass):
    def pattern(self, x):
        return x.sin().round()

    def replacement(self, x):
        return torch.round(torch.sin(x))

    def inputs(self):
        return [torch.empty(4, 8)]


def whats(fusion) -> list[str]:
    return [problem.what for problem in prove(fusion).problems]


def test_a_sound_fusion_has_no_problem():
    assert prove(Rounded()) == Proof(name="Rounded", forms=1)


def test_a_pattern_that_inductor_rewrites_never_finds_itself():
    class Product(FusionPass):
        def pattern(self, x, w, bias):
            return torch.mm(x, w) + bias  # one `addmm` by the time fusions run

        def replacement(self, x, w, bias):
            return torch.addmm(bias, x, w)

        def inputs(self):
            return [torch.empty(4, 8), torch.empty(8, 8), torch.empty(8)]

    assert whats(Product()) == ["no-self-match"]


def test_an_output_beside_the_others_can_not_be_reached():
    class Apart(Rounded):
        def pattern(self, x, y):
            return x.sin().round(), y.cos()

        def replacement(self, x, y):
            return torch.round(torch.sin(x)), y.cos()

        def inputs(self):
            return [torch.empty(4, 8), torch.empty(4, 8)]

    assert whats(Apart()) == ["unreachable-output"]


@pytest.mark.parametrize(
    ("replacement", "what"),
    [
        (torch.sin, "values"),
        (torch.empty_like, "values"),
        (lambda x: torch.sin(x).round().double(), "dtype"),
        (lambda x: torch.sin(x).round()[:2], "shape"),
        (lambda x: torch.sin(x).round().t().contiguous().t(), "strides"),
        (lambda x: (torch.sin(x).round(), x), "outputs"),
    ],
    ids=["values", "never-written", "dtype", "shape", "strides", "outputs"],
)
def test_a_replacement_that_is_not_the_pattern(replacement, what):
    wrong = type("Wrong", (Rounded,), {"replacement": lambda self, x: replacement(x)})
    assert whats(wrong()) == [what]


def test_a_proof_is_kept_until_the_sources_change(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = proved(Rounded())
    monkeypatch.setattr(proof, "prove", lambda *_: pytest.fail("proved again"))
    assert proved(Rounded()) == first

    class Other(Rounded):
        def pattern(self, x):
            return x.cos().round()

    with pytest.raises(pytest.fail.Exception):
        proved(Other())


def test_doctor_says_what_is_wrong_with_a_pass():
    lines = [
        '{"name": "A", "forms": 3, "problems": []}',
        '{"name": "B", "forms": 1, "problems": [{"pattern": "p", "what": "dtype", "detail": "wanted a"}]}',
    ]
    a, b = judge(lines)
    assert (a.check, a.state, a.detail) == ("fusion A", "works", "3 patterns proved")
    assert (b.state, b.detail) == ("degraded", "p: dtype: wanted a")


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        ({"dtypes": (torch.float16,)}, "not applicable: no tensor of torch.float16"),
        ({"devices": ("cuda",)}, "not applicable on cpu, only on cuda"),
        ({"max_tokens": 64}, "not applicable for the range 1-128"),
    ],
    ids=["dtype", "device", "range"],
)
def test_a_pass_that_is_not_for_a_graph_says_so_once(limits, why, record_here):
    fusion = type("Limited", (NormDoubled,), limits)()
    manager = PostGradPassManager()
    manager.configure(resolve(CompilationConfig(inductor_passes=[fusion]), available_passes()).config)
    with record_here() as run, pass_context(Range(1, 128)):
        for _ in range(2):
            module = traced(lambda x: torch.ops.core.norm(x, 1e-5) * 2, torch.randn(3, 8))
            manager(module.graph)
    assert fusion.matched_count == 0
    said = [event.disabled_by for _, event in run.load().log.of(PassRun) if event.disabled_by]
    assert said == [why]
    (row,) = [row for row in run.fusion if row.pass_ == "Limited"]
    assert (row.outcome, why in row.why) == ("not-run", True)


@pytest.mark.parametrize("ranks", [1, 2])
def test_sequence_parallelism_that_leaves_a_range_to_others_is_no_fault(ranks, record_here, monkeypatch):
    monkeypatch.setattr("compdbg.compiler.passes.fusion.ranks.ranks_in", lambda group: ranks)
    asked = CompilationConfig(pass_config={"enable_sp": True, "fuse_allreduce_rms": True})
    manager = PostGradPassManager()
    manager.configure(resolve(asked, available_passes()).config)
    with record_here() as run, pass_context(Range(1, 8192)):
        manager(traced(lambda x: x * 2, torch.randn(3, 8)).graph)
    (row,) = [row for row in run.fusion if row.pass_ == "SequenceParallelismPass"]
    assert row.outcome == "not-run"
    assert (
        row.why
        == {
            1: "skipped: one rank: there is no all-reduce in the graph",
            2: "skipped: left to fuse_allreduce_rms: the range 1-8192 begins below 2048 tokens",
        }[ranks]
    )
    assert [f.code for f in find_all(run.load()) if f.severity != "info"] == []


def test_all_fusions_of_collectives_say_that_there_is_one_rank(record_here):
    manager = PostGradPassManager()
    manager.configure(resolve(CompilationConfig(pass_config={"enable_all": True}), available_passes()).config)
    of_ranks = [f"{kind}Pass" for kind in ("AllReduceRMSNormFusion", "AsyncTP", "CollectiveFusion")]
    with record_here() as run, pass_context(Range(1, 8192)):
        for _ in range(2):
            manager(
                traced(lambda x, w: norms.rms_norm(x + 1, w, 1e-5), torch.randn(3, 8), torch.ones(8)).graph
            )
    for name in (*of_ranks, "SequenceParallelismPass"):
        whole = run.fusion[name]
        assert (whole.outcome, whole.rows[0].why) == (
            "not-run", "skipped: one rank: there is no all-reduce in the graph",
        )  # fmt: skip
    told = [f for f in find_all(run.load()) if f.data.get("pass") in (*of_ranks, "SequenceParallelismPass")]
    assert told == []


def test_what_one_rank_sums_is_looked_at_all_the_same(record_here):
    """A model may call collectives on one rank, and they are in the graph."""
    functional = torch.ops._c10d_functional

    def summed(x, residual, w):
        total = functional.wait_tensor(functional.all_reduce(x, "sum", "0")) + residual
        return norms.rms_norm(total, w, 1e-5)

    manager = PostGradPassManager()
    manager.configure(resolve(CompilationConfig(pass_config={"enable_all": True}), available_passes()).config)
    graph = traced(summed, torch.randn(3, 8), torch.randn(3, 8), torch.ones(8)).graph
    with record_here() as run, pass_context(Range(1, 8)):
        manager(graph)
    assert run.fusion["AllReduceRMSNormFusionPass"].outcome == "fired"


def test_options_are_fields():
    import dataclasses

    @dataclasses.dataclass
    class Scaled(FusionPass):
        by: float = 2.0

        def pattern(self, x):
            return torch.ops.core.norm(x, 1e-5) * self.by

        def replacement(self, x):
            return torch.ops.core.norm_doubled(x, 1e-5)

        def inputs(self):
            return [torch.empty(5, 8)]

    module = traced(lambda x: torch.ops.core.norm(x, 1e-5) * 3.0, torch.randn(3, 8))
    two, three = Scaled(), Scaled(by=3.0)
    two(module.graph)
    three(module.graph)
    assert (two.matched_count, three.matched_count) == (0, 1)
    assert two.uuid() != three.uuid()
