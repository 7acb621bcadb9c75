"""Passes of our own: what tidies graphs, the framework of fusions, and the manager's identity."""

from __future__ import annotations

import operator
import subprocess
import sys

import pytest
import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

import tests.compiler.passes_only  # noqa: F401
from compdbg.compiler import CompilationConfig, FusionPass, support_torch_compile, use_config
from compdbg.compiler.config_values import ConfigError
from compdbg.compiler.effective import resolve
from compdbg.compiler.passes.fusion.fusion_pass import FusionPattern
from compdbg.compiler.passes.inductor_pass import CallableInductorPass, InductorPass, as_pass, pass_context
from compdbg.compiler.passes.pass_manager import PostGradPassManager, available_passes
from compdbg.compiler.passes.utility.fix_functionalization import FixFunctionalizationPass
from compdbg.compiler.passes.utility.noop_elimination import NoOpEliminationPass
from compdbg.compiler.passes.utility.post_cleanup import PostCleanupPass
from compdbg.compiler.ranges import Range
from tests.compiler.ops import compare

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")]
aten = torch.ops.aten


@torch.library.custom_op("core::norm", mutates_args=())
def norm(x: torch.Tensor, eps: float) -> torch.Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)


@norm.register_fake
def _(x, eps):
    return torch.empty_like(x)


@torch.library.custom_op("core::norm_doubled", mutates_args=())
def norm_doubled(x: torch.Tensor, eps: float) -> torch.Tensor:
    return norm(x, eps) * 2


@norm_doubled.register_fake
def _(x, eps):
    return torch.empty_like(x)


class NormDoubled(FusionPass):
    """`norm` followed by doubling, as one operator."""

    def __init__(self, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps

    def pattern(self, x):
        return torch.ops.core.norm(x, self.eps) * 2

    def replacement(self, x):
        return torch.ops.core.norm_doubled(x, self.eps)

    def inputs(self):
        return [torch.empty(5, 8)]


def traced(function, *inputs):
    return make_fx(function, tracing_mode="fake")(*inputs)


def ops(module) -> list[str]:
    return [str(n.target).rpartition("aten.")[2] for n in module.graph.nodes if n.op == "call_function"]


def test_reshapes_and_slices_that_change_nothing_are_removed():
    def forward(x):
        a = aten.reshape(aten.reshape(aten.reshape(x.sin(), [2, 16]), [4, 8]), [8, 4])
        return aten.slice(a, 0, 0, 8).cos(), aten.slice_scatter(a, x, 0, 0, 8) + 1

    x = torch.randn(8, 4)
    module = traced(forward, x)
    NoOpEliminationPass()(module.graph)
    module.graph.eliminate_dead_code()
    module.recompile()
    assert ops(module) == ["sin.default", "cos.default", "add.Tensor"]
    for found, wanted in zip(module(x), forward(x), strict=True):
        torch.testing.assert_close(found, wanted)


def test_reshapes_that_change_something_stay():
    def forward(x):
        return aten.reshape(x.sin(), [4, 8]), aten.slice(x, 0, 0, 4)

    module = traced(forward, torch.randn(8, 4))
    NoOpEliminationPass()(module.graph)
    assert ops(module) == ["sin.default", "view.default", "slice.Tensor"]


def test_a_returned_view_of_an_input_does_not_become_the_input():
    module = traced(lambda x: aten.slice(x, 0, 0, 8), torch.randn(8, 4))
    NoOpEliminationPass()(module.graph)
    assert ops(module) == ["slice.Tensor"]


def test_cleanup_sorts_and_drops_what_is_unused():
    module = traced(lambda x: x.sin() + 1, torch.randn(3))
    graph = module.graph
    sin, add = list(graph.nodes)[1:3]
    with graph.inserting_after(add):
        late = graph.call_function(aten.cos.default, (sin.args[0],))
        graph.call_function(aten.tan.default, (sin.args[0],))
    add.args = (late, 1)
    PostCleanupPass()(graph)
    graph.lint()
    assert ops(module) == ["cos.default", "add.Tensor"]


def functionalized(read_after: bool):
    """`out` is written by an operator; afterwards the old value is read, or not."""
    graph = torch.fx.Graph()
    mode = torch._subclasses.FakeTensorMode()

    def value(node, like=None):
        node.meta["val"] = mode.from_tensor(torch.empty(4)) if like is None else like
        return node

    x = value(graph.placeholder("x"))
    out = value(graph.call_function(aten.sin.default, (x,)))
    called = graph.call_function(
        torch.ops.higher_order.auto_functionalized,
        (torch.ops.core.attention_into.default,),
        {"x": x, "out": out, "layer": "a"},
    )
    written = value(graph.call_function(operator.getitem, (called, 1)))
    results = [value(graph.call_function(aten.cos.default, (written,)))]
    if read_after:
        results.append(value(graph.call_function(aten.tan.default, (out,))))
    graph.output(tuple(results))
    return torch.fx.GraphModule(nn.Module(), graph)


@pytest.mark.parametrize("read_after", [False, True])
def test_an_operator_writes_in_place_again_only_where_nothing_reads_the_old_value(read_after):
    import tests.compiler.ops  # noqa: F401

    module = functionalized(read_after)
    FixFunctionalizationPass()(module.graph)
    module.graph.lint()
    module.recompile()
    targets = [n.target for n in module.graph.nodes]
    assert (torch.ops.core.attention_into.default in targets) is not read_after
    x = torch.randn(4)
    if not read_after:
        torch.testing.assert_close(module(x)[0], x.sin().cos())


def test_a_fusion_is_a_pattern_a_replacement_and_inputs():
    fusion = NormDoubled()
    module = traced(
        lambda x: torch.ops.core.norm(x, 1e-5) * 2 + torch.ops.core.norm(x, 1e-6) * 2, torch.randn(3, 8)
    )
    fusion(module.graph)
    assert fusion.matched_count == 1
    assert sorted(str(n.target) for n in module.graph.nodes if "norm" in str(n.target)) == [
        "core.norm.default",
        "core.norm_doubled.default",
    ]


def test_a_replacement_is_compared_with_its_pattern():
    assert NormDoubled().disagreements() == []

    class Wrong(NormDoubled):
        def replacement(self, x):
            return torch.ops.core.norm_doubled(x, self.eps) + 1

    class WrongType(NormDoubled):
        def replacement(self, x):
            return torch.ops.core.norm_doubled(x, self.eps).double()

    (values,) = Wrong().disagreements()
    assert (values.what, values.pattern) == ("values", "pattern")
    (kind,) = WrongType().disagreements()
    assert (kind.what, kind.wanted, kind.found) == ("dtype", "torch.float32", "torch.float64")


def test_several_forms_and_a_check_of_the_match():
    def only_narrow(match):
        return match.kwargs["x"].meta["val"].shape[-1] == 8

    class Forms(FusionPass):
        def patterns(self):
            for eps in (1e-5, 1e-6):
                fusion = NormDoubled(eps)
                yield FusionPattern(
                    pattern=fusion.pattern,
                    replacement=fusion.replacement,
                    inputs=fusion.inputs,
                    extra_check=only_narrow,
                )

    def forward(x, y):
        return (
            torch.ops.core.norm(x, 1e-5) * 2,
            torch.ops.core.norm(x, 1e-6) * 2,
            torch.ops.core.norm(y, 1e-5) * 2,
        )

    fusion = Forms()
    fusion(traced(forward, torch.randn(3, 8), torch.randn(3, 9)).graph)
    assert fusion.matched_count == 2


def test_a_fusion_without_a_pattern_is_said():
    class Empty(FusionPass):
        pass

    with pytest.raises(NotImplementedError, match="Empty has neither `inputs` nor `patterns`"):
        Empty()(traced(lambda x: x.sin(), torch.randn(2)).graph)


def manager(**config) -> PostGradPassManager:
    made = PostGradPassManager()
    made.configure(resolve(CompilationConfig(**config), available_passes()).config)
    return made


def test_the_manager_runs_ours_then_the_users_then_the_clean_up():
    def of_mine(graph):
        pass

    names = [p.name for p in manager(inductor_passes=[of_mine, NormDoubled()]).passes]
    assert names == ["NoOpEliminationPass", "ResidualSumPass", "of_mine", "NormDoubled"]
    assert [p.name for p in manager(pass_config={"enable_all": False}).passes] == ["ResidualSumPass"]
    again = manager(pass_config={"enable_all": False, "eliminate_noops": True})
    assert [p.name for p in again.passes] == ["NoOpEliminationPass", "ResidualSumPass"]


def test_a_pass_is_run_for_its_range_only_and_that_is_kept():
    class Small(InductorPass):
        def __call__(self, graph):
            graph.seen = True

        def is_applicable_for_range(self, compile_range):
            return compile_range.high <= 16

    made = manager(inductor_passes=[Small()])
    for bounds, ran in ((Range(1, 16), True), (Range(17, 64), False)):
        module = traced(lambda x: x.sin(), torch.randn(2))
        with pass_context(bounds):
            made(module.graph)
        (run,) = [run for run in made.runs if run.pass_name == "Small"]
        assert hasattr(module.graph, "seen") is ran
        assert (run.disabled_by is None) is ran


def test_the_uuid_covers_code_settings_order_range_and_key():
    base = manager(inductor_passes=[NormDoubled(1e-5), as_pass(operator.neg)])
    same = manager(inductor_passes=[NormDoubled(1e-5), as_pass(operator.neg)])
    other_order = manager(inductor_passes=[as_pass(operator.neg), NormDoubled(1e-5)])
    other_setting = manager(inductor_passes=[NormDoubled(1e-6), as_pass(operator.neg)])
    assert base.uuid() == same.uuid()
    assert len({m.uuid() for m in (base, other_order, other_setting)}) == 3
    with pass_context(Range(1, 8)):
        small = base.uuid()
    with pass_context(Range(1, 8), "key"):
        keyed = base.uuid()
    assert len({base.uuid(), small, keyed}) == 3


def test_the_uuid_of_every_pass_is_the_same_in_every_process():
    """Sets of dtypes, say, are in another order in each."""
    code = (
        "from compdbg.compiler import CompilationConfig;"
        "from compdbg.compiler.passes.pass_manager import PostGradPassManager;"
        "manager = PostGradPassManager();"
        "manager.configure(CompilationConfig(pass_config={'enable_all': True, **dict.fromkeys("
        "CompilationConfig().pass_config.flags(), True)}));"
        "print(manager.identity())"
    )
    processes = [
        subprocess.Popen([sys.executable, "-W", "ignore", "-c", code], stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    said = [process.communicate()[0] for process in processes]
    assert "RMSNormQuantFusionPass" in said[0]
    assert len(set(said)) == 1


def test_the_uuid_of_a_fusion_does_not_change_by_matching():
    fusion = NormDoubled()
    before = fusion.uuid()
    fusion(traced(lambda x: torch.ops.core.norm(x, 1e-5) * 2, torch.randn(3, 8)).graph)
    assert fusion.uuid() == before


def test_functions_methods_and_names_are_passes():
    calls = []
    assert as_pass(calls.append).name == "append"
    assert isinstance(as_pass(lambda graph: None), CallableInductorPass)
    named = as_pass("tests.compiler.test_passes:NormDoubled")
    assert named.name == "NormDoubled"
    assert as_pass(lambda graph: 1).uuid() != as_pass(lambda graph: graph.lint()).uuid()


@pytest.mark.parametrize(("by", "matched"), [(2, 1), (3, 0)])
def test_a_fusion_of_constants_fires_at_a_dynamic_size(by, matched):
    """The pattern is traced again at the size that the graph has."""
    fusion = NormDoubled()

    @support_torch_compile(dynamic_arg_dims={"x": 0})
    class Model(nn.Module):
        def forward(self, x):
            return torch.ops.core.norm(x, 1e-5) * by

    config = CompilationConfig(backend="passes-only", inductor_passes=[fusion], disable_cache=True)
    with use_config(config):
        Model()(torch.randn(3, 8))
    assert fusion.matched_count == matched


@pytest.mark.slow
def test_a_users_fusion_runs_through_inductor_on_every_piece(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "torch"))  # what is cached runs no pass
    fusion = NormDoubled()

    @support_torch_compile(dynamic_arg_dims={"x": 0})
    class Model(nn.Module):
        def forward(self, x):
            x = torch.ops.core.norm(x, 1e-5) * 2
            x = torch.ops.core.attention(x)
            return torch.ops.core.norm(x, 1e-5) * 2

    dump = tmp_path / "dump"
    config = CompilationConfig(
        splitting_ops=["core::attention"], inductor_passes=[fusion], debug_dump_path=str(dump)
    )
    with use_config(config):
        model = Model()
    compare(model, 3, 5, 1)
    assert fusion.matched_count == 1
    changed = sorted(p.name for p in dump.rglob("piece_0/1-/passes/*"))
    assert changed == ["02.NormDoubled.after.py", "02.NormDoubled.before.py"]
    assert len(list(dump.rglob("inductor_code.py"))) == 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("nowhere:Pass", "'nowhere:Pass': there is no module 'nowhere' to import"),
        (
            "tests.nowhere.deep:Pass",
            "'tests.nowhere.deep:Pass': there is no module 'tests.nowhere' to import",
        ),
        (
            "tests.compiler.test_passes:NormDubled",
            "tests.compiler.test_passes has no 'NormDubled'; did you mean 'NormDoubled'?",
        ),
        ("tests.compiler.test_passes:NormDoubled.no", "NormDoubled has no 'no'"),
        ("tidy", "no package offers a pass 'tidy'; write `module:object` for one of your own"),
        (3, "3 is no pass: neither an InductorPass nor a function"),
    ],
)
def test_what_names_no_pass_is_an_error_of_the_configuration(given, said):
    with pytest.raises(ConfigError) as raised:
        as_pass(given)
    assert str(raised.value).startswith("inductor_passes: ")
    assert said in str(raised.value)


def test_what_a_module_of_the_users_raises_is_its_own(tmp_path, monkeypatch):
    (tmp_path / "broken_passes.py").write_text("import not_installed_here\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="not_installed_here"):
        as_pass("broken_passes:Pass")
