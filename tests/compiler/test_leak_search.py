"""COMPDBG_CHECK_PADDING=1 names the operator through which added rows get out, its line and its piece."""

from __future__ import annotations

import copy
import inspect

import pytest
import torch
from torch import nn

import compdbg
from compdbg.compiler import CompilationConfig, set_forward_context, support_torch_compile, use_config
from compdbg.compiler.compiler_interface import EagerAdaptor, register_compiler
from compdbg.compiler.forward_context import current
from compdbg.compiler.piece_cache import forget
from compdbg.events import PaddingLeak
from compdbg.findings.collect import find_all

pytestmark = pytest.mark.torch
WIDTH = 4


@torch.library.custom_op("leaks::attention", mutates_args=())
def attention(x: torch.Tensor) -> torch.Tensor:
    return x.sin()


@torch.library.custom_op("leaks::centred", mutates_args=())
def centred(x: torch.Tensor) -> torch.Tensor:
    return x - x.mean(0)


@torch.library.custom_op("leaks::centred_rows", mutates_args=())
def centred_rows(x: torch.Tensor) -> torch.Tensor:
    context = current()
    rows = x.shape[0] if context is None or context.true_size is None else context.true_size
    return x - x[:rows].mean(0)


@torch.library.custom_op("leaks::store", mutates_args=("cache",))
def store(x: torch.Tensor, slots: torch.Tensor, cache: torch.Tensor) -> None:
    cache[slots] += x


@torch.library.custom_op("leaks::by_metadata", mutates_args=())
def by_metadata(x: torch.Tensor) -> torch.Tensor:
    context = current()
    assert context is not None
    return x * context.attn_metadata["scale"]


for name in ("attention", "centred", "centred_rows", "by_metadata"):
    torch.library.register_fake(f"leaks::{name}", torch.empty_like)


@pytest.fixture(autouse=True)
def _checked(monkeypatch):
    monkeypatch.setenv("COMPDBG_CHECK_PADDING", "1")


def line_with(cls: type, text: str) -> int:
    lines, first = inspect.getsourcelines(cls)
    return first + next(n for n, line in enumerate(lines) if text in line)


def served(cls, tmp_path, *sizes, backend="eager", mode="PIECEWISE", inputs=None, context=None):
    """The run of this model called with these sizes, padded to 8, and its last results."""
    config = CompilationConfig(
        backend=backend,
        splitting_ops=["leaks::attention", "leaks::centred", "leaks::centred_rows", "leaks::by_metadata"],
        cudagraph_mode=mode,
        cudagraph_capture_sizes=[8],
    )
    given = inputs or (lambda n: (torch.linspace(-1, 2, n * WIDTH).reshape(n, WIDTH),))
    torch._dynamo.reset()
    folder = tmp_path / f"run{len(list(tmp_path.iterdir()))}"
    with compdbg.record(folder) as recording, use_config(config), torch.inference_mode():
        model = cls()
        for n in sizes:
            with set_forward_context(context):
                result = model(*given(n))
    return recording.load(), result


def leak_of(run):
    (finding,) = [f for f in find_all(run) if f.severity == "error"]
    assert finding.code == "padded-rows-leak"
    return finding


def mean_after_others():
    @support_torch_compile(dynamic_arg_dims={"x": 0})
    class MeanAfterOthers(nn.Module):
        def forward(self, x):
            h = torch.ops.leaks.attention(x * 2)
            h = h.exp() + 1
            middle = h.mean(0)
            return (h - middle).cos()

    return MeanAfterOthers


@pytest.mark.parametrize("mode", ["PIECEWISE", "FULL"])
def test_the_operator_its_piece_and_its_line(tmp_path, mode):
    cls = mean_after_others()
    run, _ = served(cls, tmp_path, 8, 8, 3, 3, mode=mode)
    finding = leak_of(run)
    assert (finding.data["op"], finding.data["piece"], finding.data["node"]) == (
        "aten::mean",
        "piece_2",
        "middle",
    )
    assert finding.where.line == line_with(cls, "h.mean(0)")
    assert finding.title.endswith("through `aten::mean`")
    assert finding.data["elements"] == 3 * WIDTH


def test_what_one_operator_changes_is_one_finding(tmp_path):
    @support_torch_compile(dynamic_arg_dims={"x": 0})
    class TwoResults(nn.Module):
        def forward(self, x):
            shares = x.softmax(0)
            return shares * 2, x + 1, torch.ops.leaks.attention(shares)

    run, _ = served(TwoResults, tmp_path, 8, 8, 3, 3)
    finding = leak_of(run)
    assert (finding.data["op"], finding.data["changed"]) == ("aten::softmax", ["output 0", "output 2"])
    assert "change output 0 and output 2 of" in finding.title


def test_two_operators_are_two_findings(tmp_path):
    @support_torch_compile(dynamic_arg_dims={"x": 0})
    class TwoOperators(nn.Module):
        def forward(self, x):
            return x.softmax(0), x - x.amax()

    run, _ = served(TwoOperators, tmp_path, 8, 8, 3, 3)
    leaks = [f for f in find_all(run) if f.code == "padded-rows-leak"]
    assert {(f.data["op"], f.data["what"]) for f in leaks} == {
        ("aten::softmax", "output 0"), ("aten::amax", "output 1"),
    }  # fmt: skip


def test_a_splitting_operator_that_mixes_rows(tmp_path):
    @support_torch_compile(dynamic_arg_dims={"x": 0})
    class Splitting(nn.Module):
        def forward(self, x):
            return torch.ops.leaks.centred(x * 2) * 3

    finding = leak_of(served(Splitting, tmp_path, 8, 8, 3, 3)[0])
    assert (finding.data["op"], finding.data["piece"]) == ("leaks::centred", "piece_1")
    assert finding.where.line == line_with(Splitting, "leaks.centred")


def test_one_that_looks_at_the_true_rows_does_not(tmp_path):
    @support_torch_compile(dynamic_arg_dims={"x": 0})
    class Looking(nn.Module):
        def forward(self, x):
            return torch.ops.leaks.centred_rows(x * 2) * 3

    run, _ = served(Looking, tmp_path, 8, 8, 3, 3)
    assert not run.log.of(PaddingLeak)


def test_another_layout_is_no_mixing(tmp_path):
    """Rows stand apart in the flat form, whose first elements are not those of the true rows."""

    @support_torch_compile(dynamic_arg_dims={"x": 0})
    class Transposed(nn.Module):
        def forward(self, x):
            flat = x.t().reshape(-1)
            back = (flat * 2).reshape(WIDTH, -1).t()
            return back - back.exp().sum(0)

    finding = leak_of(served(Transposed, tmp_path, 8, 8, 3, 3)[0])
    assert finding.data["op"] == "aten::sum"
    assert finding.where.line == line_with(Transposed, ".sum(0)")


@pytest.mark.parametrize("mode", ["PIECEWISE", "FULL"])
def test_what_writes_added_rows_to_a_cache(tmp_path, mode):
    @support_torch_compile(dynamic_arg_dims={"x": 0, "slots": 0})
    class Storing(nn.Module):
        def forward(self, x, slots, cache):
            h = torch.ops.leaks.attention(x)
            torch.ops.leaks.store(h, slots, cache)
            return h + 1

    cache = torch.zeros(16, WIDTH)
    run, _ = served(
        Storing, tmp_path, 8, 8, 3, mode=mode,
        inputs=lambda n: (torch.ones(n, WIDTH), torch.arange(n) + 1, cache),
    )  # fmt: skip
    finding = leak_of(run)
    assert (finding.data["op"], finding.data["what"]) == ("leaks::store", "cache")
    assert "writes added rows to it" in finding.cause
    assert finding.where.line == line_with(Storing, "leaks.store")
    one = torch.ones(WIDTH).sin()
    torch.testing.assert_close(cache[1:4], one.expand(3, -1) * 3)  # each call has written once
    torch.testing.assert_close(cache[4:9], one.expand(5, -1) * 2)


def test_what_mixes_rows_before_they_are_written(tmp_path):
    @support_torch_compile(dynamic_arg_dims={"x": 0, "slots": 0})
    class Mixing(nn.Module):
        def forward(self, x, slots, cache):
            cache.add_(x.mean(0))
            return x + 1

    cache = torch.zeros(2, WIDTH)
    run, _ = served(
        Mixing, tmp_path, 8, 8, 3, inputs=lambda n: (torch.ones(n, WIDTH), torch.arange(n), cache)
    )
    finding = leak_of(run)
    assert (finding.data["op"], finding.data["what"]) == ("aten::mean", "cache")
    assert "is the first operator to mix rows" in finding.cause


def test_an_input_that_is_written_to(tmp_path):
    @support_torch_compile(dynamic_arg_dims={"x": 0})
    class InPlace(nn.Module):
        def forward(self, x):
            x.sub_(x.mean(0))
            return x + 1

    kept = []

    def given(n):
        kept.append(torch.ones(n, WIDTH))
        return (kept[-1],)

    run, result = served(InPlace, tmp_path, 8, 8, 3, inputs=given)
    finding = leak_of(run)
    assert (finding.data["op"], finding.data["changed"]) == ("aten::mean", ["output 0", "input 1"])
    assert torch.equal(result, kept[-1] + 1)  # the caller's tensor was written to once
    torch.testing.assert_close(kept[-1], torch.full((3, WIDTH), 1 - 3 / 8))


def test_integers_that_say_where_rows_go(tmp_path):
    @support_torch_compile(dynamic_arg_dims={"x": 0})
    class Counting(nn.Module):
        def forward(self, x):
            return x - x.max()

    run, _ = served(
        Counting, tmp_path, 8, 8, 3, inputs=lambda n: (torch.arange(n * WIDTH).reshape(n, WIDTH) - 99,)
    )
    assert leak_of(run).data["op"] == "aten::max"


def test_the_metadata_of_the_call_is_there(tmp_path):
    @support_torch_compile(dynamic_arg_dims={"x": 0})
    class Scaled(nn.Module):
        def forward(self, x):
            return torch.ops.leaks.by_metadata(x).softmax(0)

    run, _ = served(Scaled, tmp_path, 8, 8, 3, context={"scale": torch.tensor(2.0)})
    assert leak_of(run).data["op"] == "aten::softmax"


class Mixes(EagerAdaptor):
    """Compiles a cosine into one of which the rows are mixed."""

    name = "mixes"

    def compile(self, graph, example_inputs, options):
        changed = copy.deepcopy(graph)
        for node in changed.graph.nodes:
            if node.op == "call_method" and node.target == "cos":
                node.target, node.args = "softmax", (*node.args, 0)
        changed.recompile()
        return super().compile(changed, example_inputs, options)


register_compiler("mixes", lambda config: Mixes())


def test_what_only_compiled_code_lets_out(tmp_path):
    @support_torch_compile(dynamic_arg_dims={"x": 0})
    class Cosine(nn.Module):
        def forward(self, x):
            return x.cos() + 1

    finding = leak_of(served(Cosine, tmp_path, 8, 8, 3, backend="mixes")[0])
    assert finding.data["op"] is None
    assert "run one by one by eager, mix no rows: it is what was compiled of them" in finding.cause


def test_a_model_from_the_compile_cache_has_its_operator_but_no_line_of_it(tmp_path):
    cls = mean_after_others()
    served(cls, tmp_path, 8)
    forget()
    run, _ = served(cls, tmp_path, 8, 8, 3)
    assert any(piece.loaded for piece in run.pieces)
    finding = leak_of(run)
    assert (finding.data["op"], finding.data["piece"]) == ("aten::mean", "piece_2")
    assert "at an unknown line" in finding.cause
    assert finding.where.function == "served"
