"""Writes that a pass loses, copies that it drops and copies that torch keeps: and the twins that are fine."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch

import compdbg
from compdbg.events import HookError
from compdbg.findings.base import Finding
from compdbg.findings.collect import find_all
from tests.integration.graphs_here import (
    as_triton,
    calls,
    functional,
    functionalized,
    lower,
    passing,
    reinplace,
)

# torch's own modules warn of deprecated parts of torch when they are imported.
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")]
aten = torch.ops.aten
Program = Callable[..., torch.Tensor]
CODES = ("side-effect-removed", "clone-removed", "clone-kept")


@torch.library.custom_op(
    "mut::write_kv", mutates_args=("k", "v"), schema="(Tensor x, Tensor(a!) k, Tensor(b!) v) -> ()"
)
def write_kv(x: Any, k: Any, v: Any) -> None:
    k[0].copy_(x)
    v[0].copy_(x)


@torch.library.custom_op(
    "mut::write_both", mutates_args=("k", "v"), schema="(Tensor x, Tensor(a!) k, Tensor(b!) v) -> ()"
)
def write_both(x: Any, k: Any, v: Any) -> None:
    k[0].copy_(x)
    v[0].copy_(x)


@torch.library.custom_op("mut::write", mutates_args=("k",), schema="(Tensor x, Tensor(a!) k) -> ()")
def write(x: Any, k: Any) -> None:
    k[0].copy_(x)


@torch.library.custom_op("mut::dummy_write", mutates_args=(), schema="(Tensor x) -> Tensor")
def dummy_write(x: Any) -> Any:
    return x.new_empty(0)


@dummy_write.register_fake
def _(x: Any) -> Any:
    return x.new_empty(0)


@torch.library.custom_op("mut::attention", mutates_args=(), schema="(Tensor x, Tensor dep) -> Tensor")
def attention(x: Any, dep: Any) -> Any:
    return x.clone()


@attention.register_fake
def _(x: Any, dep: Any) -> Any:
    return torch.empty_like(x)


def both(x: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    torch.ops.mut.write_kv(x, k, v)
    return x * 2


def cache() -> torch.Tensor:
    return torch.zeros(1000, 4)


@pytest.fixture
def seen(record_here: Any) -> Callable[..., list[Finding]]:
    """Runs Inductor's passes, with the given one as a custom pass, over a program's graph; the findings."""

    def run(
        program: Program, *args: Any, passes: Any = (), dynamic: bool = False, **config: Any
    ) -> list[Finding]:
        import torch._inductor.config

        with record_here() as run, torch._inductor.config.patch(**config):
            lower(functional(program, *args, dynamic=dynamic), *passes)
        assert [event for _, event in run.load().log.of(HookError)] == []
        return [f for f in find_all(run.load()) if f.code in CODES]

    return run


def bypass(graph: Any) -> None:
    """Takes each functionalized call out and lets its readers read what it would have mutated."""
    for node in functionalized(graph.owning_module):
        bases = node.kwargs["_all_bases"]
        for user in list(node.users):
            user.replace_all_uses_with(bases[user.args[1] - 1])
            graph.erase_node(user)
        graph.erase_node(node)


def in_place(graph: Any) -> None:
    """Turns each functionalized call into the op itself: right only if nobody needs the old value."""
    for node in functionalized(graph.owning_module):
        bases = node.kwargs["_all_bases"]
        kwargs = {k: v for k, v in node.kwargs.items() if not k.startswith("_")}
        names = [a.name for a in node.args[0]._schema.arguments if a.alias_info is not None]
        kwargs |= {name: bases[node.kwargs[f"_{name}_base_index"]] for name in names}
        with graph.inserting_before(node):
            graph.call_function(node.args[0], (), kwargs)
        for user in list(node.users):
            user.replace_all_uses_with(bases[user.args[1] - 1])
            graph.erase_node(user)
        graph.erase_node(node)


def another_op(graph: Any) -> None:
    """Replaces write_kv by an op that mutates the same arguments, as a fusion does."""
    for node in functionalized(graph.owning_module):
        node.args = (torch.ops.mut.write_both.default,)


class TestLostWrites:
    def test_a_pass_that_takes_the_op_out_is_named(self, seen: Any) -> None:
        (finding,) = seen(both, torch.ones(4), cache(), cache(), passes=[bypass])
        assert (finding.code, finding.severity) == ("side-effect-removed", "error")
        assert finding.data["pass"] == "bypass"
        assert finding.data["op"] == "mut.write_kv"
        assert finding.where is not None
        assert finding.where.function == "both"
        assert "torch.ops.mut.write_kv" in _line(finding)

    def test_a_write_back_that_is_taken_out(self, seen: Any) -> None:
        def no_copy(graph: Any) -> None:
            for node in calls(graph.owning_module, "aten.copy_"):
                graph.erase_node(node)

        def program(x: torch.Tensor, buffer: torch.Tensor) -> torch.Tensor:
            buffer.add_(x)
            return x * 2

        (finding,) = seen(program, torch.ones(4), torch.ones(4), passes=[no_copy])
        assert finding.data["op"] == "aten.copy_"

    def test_the_op_and_its_write_back_are_one_loss(self, seen: Any) -> None:
        def all_of_it(graph: Any) -> None:
            for node in calls(graph.owning_module, "aten.copy_"):
                graph.erase_node(node)
            bypass(graph)

        (finding,) = seen(both, torch.ones(4), cache(), cache(), passes=[all_of_it])
        assert finding.data["op"] == "mut.write_kv"

    def test_many_layers_lose_the_same_write(self, seen: Any) -> None:
        def layers(x: torch.Tensor, *caches: torch.Tensor) -> torch.Tensor:
            for one in caches:
                torch.ops.mut.write(x, one)
                x = x + one[0]
            return x

        (finding,) = seen(layers, torch.ones(4), *(cache() for _ in range(3)), passes=[bypass])
        assert len(finding.data["nodes"]) == 3

    def test_a_buffer_that_is_read_unwritten(self, seen: Any) -> None:
        def fresh(x: torch.Tensor) -> torch.Tensor:
            out = torch.empty(3, 4)
            torch.ops.mut.write(x, out)
            return out[0] + 1

        (finding,) = seen(fresh, torch.ones(4), passes=[bypass])
        assert finding.data["op"] == "mut.write"

    def test_a_dependency_that_is_dropped_takes_the_hidden_write_with_it(self, seen: Any) -> None:
        def layer(x: torch.Tensor) -> torch.Tensor:
            return torch.ops.mut.attention(x, torch.ops.mut.dummy_write(x))

        def fuse(graph: Any) -> None:
            (node,) = calls(graph.owning_module, "mut.attention")
            with graph.inserting_before(node):
                new = graph.call_function(aten.clone.default, (node.args[0],))
            node.replace_all_uses_with(new)
            graph.erase_node(node)

        (finding,) = seen(layer, torch.ones(4), passes=[fuse])
        assert finding.data["op"] == "mut.dummy_write"

    def test_a_write_in_place_that_is_erased_after_decomposition(self, record_here: Any) -> None:
        gm = functional(both, torch.ones(4), cache(), cache())
        with record_here() as run:
            gm = lower(gm)
            with passing(gm, "late_cleanup") as graph:
                (node,) = calls(gm, "mut.write_kv")
                graph.erase_node(node)
        (finding,) = [f for f in find_all(run.load()) if f.code in CODES]
        assert finding.data["pass"] == "late_cleanup"


class TestWritesThatAreNotLost:
    @pytest.mark.parametrize("one", [in_place, another_op], ids=lambda p: p.__name__)
    def test_another_form_or_op_that_mutates_the_same(self, seen: Any, one: Any) -> None:
        assert seen(both, torch.ones(4), cache(), cache(), passes=[one]) == []

    def test_dead_writes(self, seen: Any) -> None:
        def dead(x: torch.Tensor) -> torch.Tensor:
            scratch = torch.empty(3, 4)
            torch.ops.mut.write(x, scratch)
            return x + 1

        def clean(graph: Any) -> None:
            graph.eliminate_dead_code()

        assert seen(dead, torch.ones(4), passes=[clean]) == []

    def test_a_functional_op_in_place_of_one_that_fills_a_buffer(self, seen: Any) -> None:
        def fresh(x: torch.Tensor) -> torch.Tensor:
            out = torch.empty(3, 4)
            torch.ops.mut.write(x, out)
            return out + 1

        def functional_form(graph: Any) -> None:
            (node,) = functionalized(graph.owning_module)
            with graph.inserting_before(node):
                new = graph.call_function(aten.expand.default, (node.kwargs["x"], [3, 4]))
                new.meta["val"] = node.kwargs["_all_bases"][0].meta["val"]
            for user in list(node.users):
                user.replace_all_uses_with(new)
                graph.erase_node(user)
            graph.erase_node(node)

        assert seen(fresh, torch.ones(4), passes=[functional_form]) == []

    def test_two_writes_fused_into_one(self, seen: Any) -> None:
        def twice(x: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            torch.ops.mut.write(x, k)
            torch.ops.mut.write(x, v)
            return x * 2

        def fuse(graph: Any) -> None:
            first, second = functionalized(graph.owning_module)
            bases = [*first.kwargs["_all_bases"], *second.kwargs["_all_bases"]]
            with graph.inserting_before(second):
                new = graph.call_function(
                    torch.ops.higher_order.auto_functionalized_v2,
                    (torch.ops.mut.write_both.default,),
                    {"x": first.kwargs["x"], "_k_base_index": 0, "_v_base_index": 1, "_all_bases": bases},
                )
                new.meta["val"] = (None, *(b.meta["val"] for b in bases))
                outputs = [graph.call_function(operator.getitem, (new, i)) for i in (1, 2)]
                for output, base in zip(outputs, bases, strict=True):
                    output.meta["val"] = base.meta["val"]
            for node, output in zip((first, second), outputs, strict=True):
                (user,) = node.users
                user.replace_all_uses_with(output)
                graph.erase_node(user)
                graph.erase_node(node)

        assert seen(twice, torch.ones(4), cache(), cache(), passes=[fuse]) == []

    def test_a_copy_of_a_tensor_to_itself(self, record_here: Any) -> None:
        gm = functional(both, torch.ones(4), cache(), cache())
        with record_here() as run:
            gm = lower(gm)
            with passing(gm) as graph:
                for node in calls(gm, "aten.copy_"):
                    graph.erase_node(node)
        assert [f.code for f in find_all(run.load()) if f.code in CODES] == []

    @pytest.mark.parametrize("v2", [True, False])
    def test_inductors_own_passes(self, seen: Any, v2: bool) -> None:
        assert seen(both, torch.ones(4), cache(), cache(), enable_auto_functionalized_v2=v2) == []


def keeps_old(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    old = k.clone()
    torch.ops.mut.write(x, old)
    return old + k


class TestCopiesThatAreDropped:
    def test_a_pass_that_writes_in_place_where_the_old_value_is_read_later(self, seen: Any) -> None:
        (finding,) = seen(keeps_old, torch.ones(4), cache(), passes=[in_place])
        assert (finding.code, finding.severity) == ("clone-removed", "error")
        assert finding.data["pass"] == "in_place"
        assert finding.data["op"] == "mut.write"
        assert finding.data["readers"] == ["add"]
        assert "torch.ops.mut.write(x, old)" in _line(finding)

    def test_inductor_keeps_the_copy(self, seen: Any) -> None:
        assert seen(keeps_old, torch.ones(4), cache()) == []

    def test_reading_before_the_write(self, seen: Any) -> None:
        def before(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
            total = k.sum()
            torch.ops.mut.write(x, k)
            return k + total

        assert seen(before, torch.ones(4), cache(), passes=[in_place], reorder_for_locality=False) == []

    def test_a_reader_that_is_moved_behind_the_write(self, record_here: Any) -> None:
        def before(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
            total = k.sum()
            torch.ops.mut.write(x, k)
            return x + total

        gm = functional(before, torch.ones(4), cache())
        with record_here() as run:
            gm = lower(gm, reorder_for_locality=False)
            with passing(gm, "scheduler") as graph:
                (reader,), (written,) = calls(gm, "aten.sum"), calls(gm, "mut.write")
                written.append(reader)
                graph.lint()
        (finding,) = [f for f in find_all(run.load()) if f.code in CODES]
        assert (finding.code, finding.data["pass"]) == ("clone-removed", "scheduler")

    def test_another_part_of_the_same_memory_may_be_read_later(self, seen: Any) -> None:
        def parts(x: torch.Tensor, pool: torch.Tensor) -> torch.Tensor:
            torch.ops.mut.write(x, pool[0])
            return pool[1] + 1

        assert seen(parts, torch.ones(4), torch.zeros(2, 1000, 4)) == []


class TestCopiesThatAreKept:
    @pytest.mark.parametrize("dynamic", [False, True])
    def test_two_views_of_a_pool_given_to_one_op(self, seen: Any, dynamic: bool) -> None:
        pool = torch.zeros(2, 1000, 4)
        (finding,) = seen(both, torch.ones(4), pool[0], pool[1], dynamic=dynamic)
        assert (finding.code, finding.severity) == ("clone-kept", "warning")
        assert finding.data["bytes"] == 32000
        assert finding.data["arguments"] == ["v"]
        assert "`k`, which shares its memory" in finding.data["reason"]
        assert "torch.ops.mut.write_kv" in _line(finding)

    def test_the_first_form_of_functionalization_too(self, seen: Any) -> None:
        pool = torch.zeros(2, 1000, 4)
        (finding,) = seen(both, torch.ones(4), pool[0], pool[1], enable_auto_functionalized_v2=False)
        assert (finding.data["bytes"], finding.data["arguments"]) == (32000, ["v"])

    def test_indexing_into_halves_of_an_input(self, seen: Any) -> None:
        def halves(x: torch.Tensor, kv: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
            kv[0][at] = x
            kv[1][at] = x
            return kv.sum()

        (finding,) = seen(halves, torch.ones(2, 4), torch.zeros(2, 1000, 4), torch.tensor([1, 5]))
        assert finding.data["op"] == "aten.index_put"
        assert finding.data["bytes"] == 32000

    def test_layers_with_the_same_cause_are_one_finding(self, seen: Any) -> None:
        def layers(x: torch.Tensor, *halves: torch.Tensor) -> torch.Tensor:
            for k, v in zip(halves[::2], halves[1::2], strict=True):
                torch.ops.mut.write_kv(x, k, v)
            return x * 2

        pools = [torch.zeros(2, 1000, 4) for _ in range(3)]
        (finding,) = seen(layers, torch.ones(4), *(half for pool in pools for half in pool))
        assert (finding.data["bytes"], finding.data["copies"]) == (96000, 3)


def separate(x: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    torch.ops.mut.write_kv(x, k, v)
    return k.sum() + v.sum()


def views_inside(x: torch.Tensor, pool: torch.Tensor) -> torch.Tensor:
    torch.ops.mut.write_kv(x, pool[0], pool[1])
    return x * 2


def own_copy(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    mine = k.clone()
    torch.ops.mut.write(x, mine)
    return mine + k


def old_and_new(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    old = k.clone()
    torch.ops.mut.write(x, k)
    return old + k


def kv_update(x: torch.Tensor, keys: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    keys[:, :, at] = x
    return keys @ keys.transpose(-1, -2)


def index_copy(x: torch.Tensor, keys: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    keys.index_copy_(2, at, x)
    return keys.sum()


def slices(x: torch.Tensor, buffer: torch.Tensor) -> torch.Tensor:
    buffer.narrow(0, 3, 4).copy_(x)
    buffer.select(0, 1).fill_(2)
    return buffer + 1


def running_stats(x: torch.Tensor, mean: torch.Tensor, var: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.batch_norm(x, mean, var, training=True, momentum=0.1)


def optimizer_step(p: torch.Tensor, grad: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
    m.mul_(0.9).add_(grad, alpha=0.1)
    p.add_(m, alpha=-0.01)
    return p.sum()


def dropout(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.dropout(x, 0.5, training=True)


def counter(x: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
    count.add_(1)
    return x * count


def tiny_pool(x: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    torch.ops.mut.write_kv(x, k, v)
    return x


class TestTritonKernels:
    """A user's kernel is another form of the same writes. Triton itself is not needed to lower its calls."""

    @pytest.fixture
    def kernel(self, monkeypatch: pytest.MonkeyPatch) -> Any:
        runtime, jit, autotuner = (ModuleType(f"triton.runtime{name}") for name in ("", ".jit", ".autotuner"))
        jit.JITFunction = type("JITFunction", (), {"fn": staticmethod(both)})  # type: ignore[attr-defined]
        autotuner.Autotuner = type("Autotuner", (), {})  # type: ignore[attr-defined]
        for module in (ModuleType("triton"), runtime, jit, autotuner):
            monkeypatch.setitem(sys.modules, module.__name__, module)
        return jit.JITFunction()  # type: ignore[attr-defined]

    @pytest.fixture
    def lowered(self, record_here: Any, kernel: Any) -> Callable[..., list[Finding]]:
        def run(program: Program, *args: Any, one: Callable[[Any], None] | None = None) -> list[Finding]:
            gm = functional(program, *args)
            with record_here() as run:
                gm = as_triton(gm, kernel)
                if one is not None:
                    with passing(gm, one.__name__) as graph:
                        one(graph)
                reinplace(gm)
            assert [event for _, event in run.load().log.of(HookError)] == []
            return [f for f in find_all(run.load()) if f.code in CODES]

        return run

    def test_in_place(self, lowered: Any) -> None:
        assert lowered(both, torch.ones(4), cache(), cache()) == []

    def test_what_was_written_is_read(self, lowered: Any) -> None:
        assert lowered(separate, torch.ones(4), cache(), cache()) == []

    def test_a_copy_of_the_programs_own(self, lowered: Any) -> None:
        assert lowered(keeps_old, torch.ones(4), cache()) == []

    def test_two_views_of_a_pool(self, lowered: Any) -> None:
        pool = torch.zeros(2, 1000, 4)
        (finding,) = lowered(both, torch.ones(4), pool[0], pool[1])
        assert (finding.code, finding.data["bytes"]) == ("clone-kept", 32000)
        assert "`k`, which shares its memory" in finding.data["reason"]

    def test_a_call_that_a_pass_takes_out(self, lowered: Any) -> None:
        def drop(graph: Any) -> None:
            for node in calls(graph.owning_module, "triton_kernel_wrapper_functional"):
                for user in list(node.users):
                    user.replace_all_uses_with(node.kwargs["kwargs"][user.args[1]])
                    graph.erase_node(user)
                graph.erase_node(node)

        (finding,) = lowered(both, torch.ones(4), cache(), cache(), one=drop)
        assert finding.code == "side-effect-removed"
        assert finding.data["op"] == "triton kernel both"


HEADS, AT = torch.zeros(2, 3, 100, 4), torch.tensor([7])
SMALL = torch.zeros(2, 8, 4)
CLEAN: list[tuple[Program, tuple[Any, ...]]] = [
    (separate, (torch.ones(4), cache(), cache())),
    (views_inside, (torch.ones(4), torch.zeros(2, 1000, 4))),
    (own_copy, (torch.ones(4), cache())),
    (old_and_new, (torch.ones(4), cache())),
    (kv_update, (torch.ones(2, 3, 1, 4), HEADS, AT)),
    (index_copy, (torch.ones(2, 3, 1, 4), HEADS, AT)),
    (slices, (torch.ones(4, 4), cache())),
    (running_stats, (torch.randn(8, 64), torch.zeros(64), torch.ones(64))),
    (optimizer_step, (cache(), cache(), cache())),
    (dropout, (cache(),)),
    (counter, (cache(), torch.zeros(()))),
    (tiny_pool, (torch.ones(4), SMALL[0], SMALL[1])),
]


@pytest.mark.parametrize("v2", [True, False], ids=["v2", "v1"])
@pytest.mark.parametrize(("program", "args"), CLEAN, ids=lambda p: getattr(p, "__name__", ""))
def test_programs_that_mutate_and_have_no_fault(
    seen: Any, program: Program, args: tuple[Any, ...], v2: bool
) -> None:
    if not v2 and program is views_inside:
        pytest.skip("the first form of functionalization copies here: it does not know views")
    assert [(f.code, f.title) for f in seen(program, *args, enable_auto_functionalized_v2=v2)] == []


def _line(finding: Finding) -> str:
    assert finding.where is not None
    with open(finding.where.file) as source:
        return source.read().splitlines()[finding.where.line - 1]


def test_the_model_is_what_load_gives(record_here: Any) -> None:
    pool = torch.zeros(2, 1000, 4)
    with record_here() as run:
        lower(functional(both, torch.ones(4), pool[0], pool[1]))
    (kept,) = compdbg.load(run.path).kept_copies
    assert (kept.op, kept.bytes, kept.input, kept.costly) == ("mut.write_kv", 32000, True, True)
