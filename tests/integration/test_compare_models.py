"""Models of the built-in compiler beside eager: which size and piece differs, and what is no difference."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402

from compdbg.compiler import (  # noqa: E402
    CompilationConfig,
    CUDAGraphMode,
    set_forward_context,
    support_torch_compile,
    use_config,
    warm_up,
)
from compdbg.compiler.compiler_interface import EagerAdaptor, register_compiler  # noqa: E402
from compdbg.compiler.forward_context import current  # noqa: E402
from compdbg.compiler.piece_cache import forget  # noqa: E402
from compdbg.events import Compared, HookError  # noqa: E402
from compdbg.findings.base import Finding  # noqa: E402
from compdbg.findings.collect import find_all  # noqa: E402
from compdbg.model.run import Run  # noqa: E402
from compdbg.views.all import VIEWS  # noqa: E402
from compdbg.views.base import Source  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")]
WIDTH = 8
HIDDEN: dict[str, Tensor] = {}
"""A cache that operators find by themselves, as those of a serving engine do."""


@torch.library.custom_op("beside::attention", mutates_args=())
def attention(x: Tensor) -> Tensor:
    return x.sin()


@torch.library.custom_op("beside::into_cache", mutates_args=("cache",))
def into_cache(x: Tensor, cache: Tensor) -> Tensor:
    cache.mul_(0.5)
    cache[: x.shape[0]] += x
    return x + cache[: x.shape[0]]


@torch.library.custom_op("beside::into_hidden", mutates_args=())
def into_hidden(x: Tensor) -> Tensor:
    cache, rows = HIDDEN["cache"], current()
    count = x.shape[0] if rows is None or rows.true_size is None else rows.true_size
    cache.mul_(0.5)
    cache[:count] += x[:count]
    return x + cache[: x.shape[0]]


@torch.library.custom_op("beside::by_metadata", mutates_args=())
def by_metadata(x: Tensor) -> Tensor:
    context = current()
    assert context is not None
    return x * context.attn_metadata["scale"]


_lib = torch.library.Library("beside_lib", "DEF")
_lib.define("count(Tensor x) -> Tensor")
_lib.impl("count", lambda x: HIDDEN["count"].add_(1).expand_as(x) + x, "CPU")
for fake in ("attention", "into_hidden", "by_metadata"):
    torch.library.register_fake(f"beside::{fake}", torch.empty_like)
torch.library.register_fake("beside::into_cache", lambda x, cache: torch.empty_like(x))
torch.library.register_fake("beside_lib::count", torch.empty_like)


class Wrong(EagerAdaptor):
    """Gives other results for pieces that hold a tanh."""

    name = "wrong-tanh"

    def compile(self, graph: Any, example_inputs: list[Any], options: dict[str, Any]) -> Any:
        changed = copy.deepcopy(graph)
        for node in changed.graph.nodes:
            if "tanh" in str(node.target):
                node.target = torch.ops.aten.atan.default if node.op == "call_function" else "atan"
        changed.recompile()
        return super().compile(changed, example_inputs, options)


register_compiler("wrong-tanh", lambda config: Wrong())


@pytest.fixture(autouse=True)
def _fresh(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    forget()
    monkeypatch.setenv("COMPDBG_CACHE_DIR", str(tmp_path / "cache"))


def config(*splitting: str, backend: str = "eager", sizes: tuple[int, ...] = (4, 8), **more: Any) -> Any:
    mode = more.pop("mode", "PIECEWISE" if sizes else "NONE")
    return CompilationConfig(
        backend=backend,
        splitting_ops=list(splitting),
        cudagraph_mode=CUDAGraphMode[mode],
        cudagraph_capture_sizes=list(sizes) or None,
        **more,
    )


@pytest.fixture
def served(record_here: Any) -> Callable[..., tuple[Run, list[Tensor]]]:
    """A model of this class called with batches of these sizes, beside eager: the run, and its results."""

    def run(cls: Any, settings: Any, *sizes: int, first: Any = None, **options: Any) -> Any:
        compiled = support_torch_compile(dynamic_arg_dims={"x": 0})(cls)
        torch.manual_seed(1)
        results = []
        with record_here(**{"compare": "eager", **options}) as recording, use_config(settings):
            model = compiled()
            with torch.inference_mode():
                if first is not None:
                    first(model)
                for n in sizes:
                    results.append(model(torch.linspace(-1, 1, n * WIDTH).reshape(n, WIDTH)).clone())
        loaded: Run = recording.load()
        assert [event for _, event in loaded.log.of(HookError)] == []
        return loaded, results

    return run


def checks(run: Run) -> list[tuple[int | None, int | None, str]]:
    return [(event.size, event.padded_to, event.check) for _, event in run.log.of(Compared)]


def found(run: Run) -> list[Finding]:
    return [f for f in find_all(run) if f.severity != "info"]


class Right(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(torch.ops.beside.attention(self.up(x)).tanh())


LINE = Right.forward.__code__.co_firstlineno


def test_a_right_model_as_it_is_captured_padded_and_replayed(served: Any) -> None:
    run, _ = served(Right, config("beside::attention"), 3, 3, 3, 3, 4, 9)
    assert checks(run) == [(3, 4, "equal")] * 3 + [(4, 4, "equal"), (9, None, "equal")]
    assert [c.mode for c in run.comparisons] == ["", "PIECEWISE", "PIECEWISE", "PIECEWISE", ""]
    assert found(run) == []
    assert {(s.size, s.check) for s in run.sizes if s.eager_calls or s.replays} == {
        (3, "equal"), (4, "equal"), (9, "equal"),
    }  # fmt: skip
    assert VIEWS["numerics"](Source(run, [])).lines == ["5 equal"]


@pytest.mark.parametrize("mode", ["NONE", "FULL", "PIECEWISE"])
def test_a_piece_that_is_wrong_is_named(served: Any, mode: str) -> None:
    class Piece(Right):
        pass

    sizes = () if mode == "NONE" else (4, 8)
    settings = config("beside::attention", backend="wrong-tanh", mode=mode, sizes=sizes)
    run, _ = served(Piece, settings, 3, 4, 9)
    (finding,) = found(run)
    assert (finding.code, finding.severity, finding.cost.results) == ("diverges", "error", "wrong")
    assert (finding.data["piece"], finding.data["size"], finding.data["output"]) == ("piece_2", 3, 0)
    assert finding.data["sizes"] == [3, 4, 9]
    assert finding.title.startswith(
        f"{finding.data['graph']} gives other results compiled than in eager at size 3, from piece_2 on: "
    )
    assert "Sizes 3, 4 and 9 differ." in finding.cause
    assert finding.where is not None
    assert finding.where.line == LINE


def test_warm_ups_are_not_the_programs_calls(served: Any) -> None:
    def first(model: Any) -> None:
        warm_up(model, lambda n: (torch.ones(n, WIDTH),), sizes=[4])

    class Warmed(Right):
        pass

    run, _ = served(Warmed, config("beside::attention"), 3, first=first)
    assert checks(run) == [(3, 4, "equal")]
    assert run.comparisons[0].mode == "PIECEWISE"


def test_rows_that_padding_adds_make_a_difference(served: Any) -> None:
    class Mean(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return (x + 1) - (x + 1).mean(0)

    run, _ = served(Mean, config(), 3, 3, 3, 4, 9)
    (finding,) = found(run)
    assert finding.code == "diverges"
    assert (finding.data["size"], finding.data["padded_to"], finding.data["piece"]) == (3, 4, None)
    assert "the rows that padding adds make the difference" in finding.cause
    assert "Size 3 differs; 4 and 9 do not." in finding.cause
    assert "COMPDBG_CHECK_PADDING=1" in finding.suggestion


def test_it_is_one_finding_with_the_leak_that_causes_it(served: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Leaking(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x - x.exp().mean(0)

    monkeypatch.setenv("COMPDBG_CHECK_PADDING", "1")
    run, _ = served(Leaking, config(), 3, 3, 3, 3)
    assert [f.code for f in found(run)] == ["padded-rows-leak"]


@pytest.mark.parametrize("sizes", [(), (4, 8)])
def test_a_cache_that_a_splitting_operator_writes_to(served: Any, sizes: tuple[int, ...]) -> None:
    class Caching(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("cache", torch.zeros(16, WIDTH))

        def forward(self, x: Tensor) -> Tensor:
            return torch.ops.beside.into_cache(x * 2, self.cache).cos()

    run, results = served(Caching, config("beside::into_cache", sizes=sizes), 4, 4, 4, 4)
    assert [check for _, _, check in checks(run)] == ["equal"] * 3
    assert found(run) == []
    cache, expected = torch.zeros(16, WIDTH), []
    x = torch.linspace(-1, 1, 4 * WIDTH).reshape(4, WIDTH) * 2
    for _ in range(4):
        cache.mul_(0.5)
        cache[:4] += x
        expected.append((x + cache[:4]).cos())
    for one, other in zip(results, expected, strict=True):
        torch.testing.assert_close(one, other)


def test_a_cache_that_an_operator_finds_by_itself(served: Any) -> None:
    """It declares nothing: what its kernel writes is seen, and put back after each run by eager."""

    class Finding_(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.ops.beside.into_hidden(x * 2) + 1

    HIDDEN["cache"] = torch.zeros(16, WIDTH)
    run, _ = served(Finding_, config("beside::into_hidden"), 3, 3, 3, 3)
    assert [check for _, _, check in checks(run)] == ["equal"] * 3
    assert found(run) == []
    x = torch.linspace(-1, 1, 3 * WIDTH).reshape(3, WIDTH) * 2
    torch.testing.assert_close(HIDDEN["cache"][:3], x * (1 + 0.5 + 0.25 + 0.125))


def test_state_that_is_not_seen_is_not_compared(served: Any) -> None:
    """The kernel was registered before anything was recorded: what it writes is not seen."""

    class Counting(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.ops.beside_lib.count(x)

    HIDDEN["count"] = torch.zeros(1)
    run, _ = served(Counting, config("beside_lib::count"), 3)
    (comparison,) = run.comparisons
    assert (comparison.check, comparison.reason) == (
        "not-checked",
        "eager itself gives another result each time",
    )
    assert found(run) == []


def test_the_forward_context_is_the_calls_own(served: Any) -> None:
    class Scaled(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.ops.beside.by_metadata(x + 1) * 2

    def first(model: Any) -> None:
        for scale in (2.0, 3.0, 5.0):
            with set_forward_context({"scale": torch.tensor(scale)}):
                model(torch.ones(3, WIDTH))

    run, _ = served(Scaled, config("beside::by_metadata"), first=first)
    assert [check for _, _, check in checks(run)] == ["equal"] * 3
    assert found(run) == []


def test_inputs_and_results_that_share_memory(served: Any) -> None:
    class InPlace(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            x.add_(1)
            return x

    run, results = served(InPlace, config(), 3, 3, 3)
    assert [check for _, _, check in checks(run)] == ["equal"] * 3
    expected = torch.linspace(-1, 1, 3 * WIDTH).reshape(3, WIDTH) + 1
    assert all(torch.equal(result, expected) for result in results)


def test_a_model_from_the_compile_cache_is_compared_too(served: Any) -> None:
    class Cached(Right):
        pass

    settings = config("beside::attention", backend="wrong-tanh")
    served(Cached, settings, 4)
    forget()
    again, _ = served(Cached, settings, 4)
    assert any(piece.loaded for piece in again.pieces)
    (finding,) = found(again)
    assert (finding.code, finding.data["piece"]) == ("diverges", "piece_2")
    assert finding.where is not None
    assert finding.where.line == LINE


def test_nothing_is_compared_unless_it_is_asked_for(served: Any) -> None:
    class Quiet(Right):
        pass

    run, _ = served(Quiet, config("beside::attention", backend="wrong-tanh"), 3, compare="")
    assert run.comparisons == []


def bad(graph: Any) -> None:
    """A pass that puts one operator in the place of another."""
    for node in graph.find_nodes(op="call_function", target=torch.ops.aten.relu.default):
        node.target = torch.ops.aten.neg.default


def test_a_pass_that_is_wrong_is_named(served: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))  # where it is served, none runs

    class Relu(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.ops.beside.attention(x * 2).relu() + 1

    settings = config("beside::attention", backend="inductor", inductor_passes=[bad])
    run, _ = served(Relu, settings, 3)
    (finding,) = found(run)
    assert (finding.code, finding.data["piece"], finding.data["passes"]) == ("diverges", "piece_2", ["bad"])
    assert "this pass has changed: `bad` (-1 aten.relu.default, +1 aten.neg.default)" in finding.cause
    assert finding.suggestion.startswith("Look at `bad` first.")
