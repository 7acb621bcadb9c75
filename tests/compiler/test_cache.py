"""The cache on disk: a hit is right, every change is a miss that is named, damage is recompiled."""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import stat
import sys
import textwrap

import pytest
import torch
from torch import nn

from compdbg.compiler import CompilationConfig, support_torch_compile, use_config
from compdbg.compiler.cache_entry import Entry, Unusable, from_bytes, to_bytes
from compdbg.compiler.passes.inductor_pass import InductorPass
from compdbg.compiler.piece_cache import forget
from compdbg.events import CachedWork, CacheLookup, CacheProblem, Piece, PieceCompiled
from tests.compiler.ops import eager
from tests.compiler.sized import Heard

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")]

PROGRAM = """
    import torch
    from torch import nn
    from compdbg.compiler import support_torch_compile

    FACTOR = 2.0

    @torch.library.custom_op("{op}::attention", mutates_args=())
    def attention(x: torch.Tensor) -> torch.Tensor:
        return x.sin()

    @attention.register_fake
    def _(x):
        return torch.empty_like(x)

    @support_torch_compile(dynamic_arg_dims={{"x": 0}})
    class Model(nn.Module):
        def __init__(self, width=4, bias=1.0):
            super().__init__()
            self.linear = nn.Linear(4, width)
            self.bias = bias
            self.options = {{"scale": 3}}

        def forward(self, x):
            h = torch.ops.{op}.attention(self.linear(x))
            return h * FACTOR + self.bias * self.options["scale"]
"""


class Program:
    """A program in a file that can be changed and started again in this process."""

    def __init__(self, folder, op: str) -> None:
        self.path = folder / "served.py"
        self.text = textwrap.dedent(PROGRAM.format(op=op))
        self.op = op
        self.config = eager(f"{op}::attention")

    def change(self, old: str, new: str) -> None:
        assert old in self.text
        self.text = self.text.replace(old, new)

    def start(self, change=None, **model) -> Heard:
        """Import the file, make a model, call it; results are checked. `change` is made before the call."""
        forget()
        torch._dynamo.reset()
        self.path.write_text(self.text)
        spec = importlib.util.spec_from_file_location("served", self.path)
        module = importlib.util.module_from_spec(spec)
        sys.modules["served"] = module
        spec.loader.exec_module(module)
        if change is not None:
            change(module)
        with use_config(self.config):
            built = module.Model(**model)
        with Heard() as heard, torch.no_grad():
            for n in (3, 1, 6):
                x = torch.randn(n, 4)
                torch.testing.assert_close(built(x), built.forward_eager(x))
        return heard


@pytest.fixture
def program(tmp_path, request):
    name = f"op{abs(hash(request.node.name)) % 10**9}"
    yield Program(tmp_path, name)
    sys.modules.pop("served", None)


def looked_up(heard: Heard, layer: str = "aot") -> list[CacheLookup]:
    return [event for event in heard.of(CacheLookup) if event.layer == layer]


def result(heard: Heard, layer: str = "aot") -> list[str]:
    return [event.result for event in looked_up(heard, layer)]


def named(heard: Heard, layer: str = "aot") -> set[str]:
    """The factors that a miss names."""
    (event,) = looked_up(heard, layer)
    return {change.name for change in event.changed_factors or ()}


def test_a_second_start_loads_the_model_and_says_what_it_loads(program):
    assert result(program.start()) == ["miss"]
    heard = program.start()
    assert result(heard) == ["hit"]
    assert result(heard, "ours") == []
    pieces = heard.of(Piece)
    assert [(p.piece_kind, p.loaded, p.ops) for p in pieces] == [
        ("compiled", True, 1),
        ("splitting", True, 1),
        ("compiled", True, 2),
    ]
    assert all(event.reused for event in heard.of(PieceCompiled))


def test_entries_are_readable_beside_the_binary(program, cache):
    program.start()
    (model,) = (cache / "models").iterdir()
    files = {path.name: path for path in (model / "rank_0").iterdir()}
    assert {"factors.json", "computation_graph.py", "transformed_code.py"} < set(files)
    factors = json.loads(files["factors.json"].read_text())
    assert factors["torch"] == torch.__version__
    assert factors["config backend"] == "eager"
    assert "attention" in files["computation_graph.py"].read_text()
    assert "__compiled_fn" in files["transformed_code.py"].read_text()
    pieces = list((cache / "pieces").iterdir())
    assert len(pieces) == 2
    assert all((p / "rank_0" / "computation_graph.py").exists() for p in pieces)


def test_a_comment_in_the_model_is_a_miss_of_the_model_and_a_hit_of_its_pieces(program):
    program.start()
    program.change("def forward", "# faster\n    def forward")
    heard = program.start()
    assert result(heard) == ["miss"]
    assert named(heard) == {f"source served {program.path}"}
    assert result(heard, "ours") == ["hit", "hit"]


def test_a_changed_line_of_the_model_is_compiled_anew(program):
    program.start()
    program.change("h * FACTOR", "h / FACTOR")
    heard = program.start()
    assert result(heard) == ["miss"]
    assert named(heard) == {f"source served {program.path}", "L['self']"}, "the file, and the class in it"
    assert result(heard, "ours") == ["hit", "miss"]


def test_a_changed_global_that_the_trace_read_is_compiled_anew(program):
    program.start()
    heard = program.start(change=lambda module: setattr(module, "FACTOR", 5.0))
    assert result(heard) == ["miss"]
    (event,) = looked_up(heard)
    (change,) = event.changed_factors
    assert (change.name, change.before, change.after) == ("G['FACTOR']", "2.0", "5.0")
    assert result(program.start()) == ["hit"]
    assert result(program.start(change=lambda module: setattr(module, "FACTOR", 5.0))) == ["hit"]


def test_a_changed_attribute_or_size_of_the_model_is_compiled_anew(program):
    program.start()
    heard = program.start(bias=2.5)
    assert result(heard) == ["miss"]
    assert named(heard) == {"L['self'].bias"}
    heard = program.start(width=5)
    assert result(heard) == ["miss"]
    assert named(heard) == {"parameters"}
    assert result(program.start(bias=2.5)) == ["hit"]


def test_a_value_deep_in_a_container_of_the_model_is_compiled_anew(program):
    program.start()

    def rescale(module):
        construct = module.Model.__init__

        def __init__(self, *args, **kwargs):
            construct(self, *args, **kwargs)
            self.options["scale"] = 7

        module.Model.__init__ = __init__

    heard = program.start(change=rescale)
    assert result(heard) == ["miss"]
    assert named(heard) == {"L['self']", "L['self'].options['scale']"}, "other code, and the value"


@pytest.mark.parametrize(
    ("old", "new", "factor"),
    [
        ("return torch.empty_like(x)", "return x.new_empty(x.shape)", "fake"),
        ("attention(x: torch.Tensor) -> ", "attention(x: torch.Tensor, more: int = 0) -> ", "schema"),
    ],
)
def test_an_operators_fake_and_schema_are_factors(program, old, new, factor):
    program.start()
    program.change(old, new)
    if factor == "schema":
        program.change("def _(x):", "def _(x, more=0):")
    heard = program.start()
    assert result(heard) == ["miss"]
    operator = f"op {program.op}::attention"
    changed = {"fake"} if factor == "fake" else {"schema", "fake"}
    assert named(heard) == {f"source served {program.path}", *(f"{operator} {each}" for each in changed)}
    assert result(heard, "ours") == ["hit", "hit"], "the operator splits: no piece was compiled from it"


PASS = """
    from compdbg.compiler import InductorPass

    class Pass(InductorPass):
        def __call__(self, graph):
            graph.lint()

    PASSES = [Pass()]
"""


def with_passes(program, passes):
    return eager(f"{program.op}::attention", backend="counts-passes", inductor_passes=passes)


def test_a_pass_in_the_file_of_the_model_is_as_it_was_where_only_the_model_changed(program):
    program.text += textwrap.dedent(PASS)

    def start():
        def configure(module):
            program.config = with_passes(program, module.PASSES)

        return program.start(change=configure)

    assert result(start()) == ["miss"]
    assert result(start()) == ["hit"]
    program.change("h * FACTOR", "h / FACTOR")
    heard = start()
    assert named(heard) == {f"source served {program.path}", "L['self']"}
    assert result(heard, "ours") == ["hit", "miss"]
    program.change("graph.lint()", "graph.lint(); graph.lint()")
    (changed,) = named(start())
    assert changed.endswith(" Pass")


def test_of_several_earlier_models_the_nearest_is_named(program):
    program.start()
    program.change("FACTOR = 2.0", "FACTOR = 3.0")
    program.start()
    program.change("FACTOR = 3.0", "FACTOR = 2.0")
    program.change("return torch.empty_like(x)", "return x.new_empty(x.shape)")
    assert named(program.start()) == {f"source served {program.path}", f"op {program.op}::attention fake"}


def test_the_configuration_and_torchs_version_are_factors(program, monkeypatch):
    program.start()
    program.config = eager(f"{program.op}::attention", compile_sizes=[4])
    heard = program.start()
    assert named(heard) == {"config compile_sizes"}
    monkeypatch.setattr(torch, "__version__", "2.99.0")
    from compdbg.compiler import cache_factors

    cache_factors.machine_factors.cache_clear()
    heard = program.start()
    monkeypatch.undo()
    cache_factors.machine_factors.cache_clear()
    assert "torch" in named(heard)
    assert result(heard, "ours") == ["miss"] * 4


def test_what_only_concerns_serving_is_no_factor(program, tmp_path):
    program.start()
    program.config = eager(
        f"{program.op}::attention",
        cudagraph_mode="PIECEWISE",
        cudagraph_capture_sizes=[4],
        copy_outputs=False,
        debug_dump_path=str(tmp_path / "dump"),
    )
    assert result(program.start()) == ["hit"]


def test_a_passs_source_its_settings_and_their_order_are_factors(program):
    class Pass(InductorPass):
        def __init__(self, setting=1):
            self.setting = setting

        def __call__(self, graph):
            pass

    class Other(InductorPass):
        def __call__(self, graph):
            pass

    def keys(*passes):
        program.config = with_passes(program, list(passes))
        return program.start()

    assert result(keys(Pass(1), Other())) == ["miss"]
    assert result(keys(Pass(1), Other())) == ["hit"]
    assert named(keys(Pass(2), Other())) == {"pass Pass"}
    assert named(keys(Other(), Pass(1))) == {"order of passes"}
    Pass.__call__ = lambda self, graph: graph.lint()

    assert result(keys(Pass(1), Other())) == ["miss"]


def test_passes_are_compared_by_name(program):
    """One more at the front, or one less, makes no other of those that stay."""

    class Pass(InductorPass):
        def __call__(self, graph):
            pass

    class Other(Pass):
        pass

    def differing(*passes):
        program.config = with_passes(program, list(passes))
        return named(program.start())

    differing(Pass(), Pass())
    assert differing(Other(), Pass(), Pass()) == {"pass Other"}
    assert differing(Other(), Pass()) == {"pass Pass #2"}


@pytest.mark.parametrize("run", ["serve-monday", ""], ids=["recorded", "not recorded"])
def test_a_miss_names_the_run_that_made_the_nearest_entry(run, program, monkeypatch):
    monkeypatch.setattr(Heard, "run", run, raising=False)
    program.start()
    program.config = eager(f"{program.op}::attention", compile_sizes=[4])
    (miss,) = looked_up(program.start())
    assert (miss.result, miss.nearest_run, miss.nearest_folder) == ("miss", run, "")
    assert miss.nearest_made is not None


def test_tied_weights_are_not_untied_ones(cache):
    @support_torch_compile(dynamic_arg_dims={"x": 0})
    class Model(nn.Module):
        def __init__(self, tied: bool) -> None:
            super().__init__()
            self.a = nn.Linear(4, 4, bias=False)
            self.b = nn.Linear(4, 4, bias=False)
            if tied:
                self.b.weight = self.a.weight

        def forward(self, x):
            return self.a(x) - self.b(x)

    results = []
    for tied in (True, False, True):
        forget()
        with use_config(eager()):
            model = Model(tied)
        x = torch.randn(3, 4)
        with Heard() as heard:
            assert bool((model(x) == 0).all()) is tied
        results += result(heard)
    assert results == ["miss", "miss", "hit"]


def test_arguments_of_another_kind_are_another_model(cache):
    @support_torch_compile(dynamic_arg_dims={"x": 0, "mask": 0})
    class Model(nn.Module):
        def forward(self, x, mask=None, scale=1):
            return x * scale if mask is None else x * mask * scale

    x, mask = torch.randn(3, 4), torch.zeros(3, 4)
    results = []
    for arguments in ({}, {"mask": mask}, {"mask": x}, {"scale": 3}, {}, {"mask": mask}):
        forget()
        with use_config(eager()):
            model = Model()
        given = {"x": x, **arguments}
        with Heard() as heard:
            torch.testing.assert_close(model(**given), model.forward_eager(**given))
        results += result(heard)
    assert results == ["miss", "miss", "miss", "miss", "hit", "hit"]


def entries(cache):
    return sorted(p for p in cache.rglob("entry*") if p.is_file())


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda data: b"", "an empty file"),
        (lambda data: data[:100], "half written"),
        (lambda data: data[:-1], "half written"),
        (lambda data: data[:-1] + bytes([data[-1] ^ 1]), "does not match its checksum"),
        (lambda data: data.replace(b'"torch"', b'"tarch"', 1), "does not match its checksum"),
        (lambda data: b"PK\x03\x04" + data, "no entry of this version"),
        (lambda data: os.urandom(4096), "no entry of this version"),
    ],
    ids=["empty", "header cut", "section cut", "bit flipped", "header changed", "foreign", "noise"],
)
def test_a_damaged_entry_is_compiled_anew_and_reported(program, cache, caplog, damage, reason):
    program.start()
    for path in entries(cache):
        path.write_bytes(damage(path.read_bytes()))
    with caplog.at_level(logging.WARNING, "compdbg.compiler"):
        heard = program.start()
    assert result(heard) == ["corrupt"]
    assert result(heard, "ours") == ["corrupt", "corrupt"]
    assert reason in looked_up(heard)[0].reason
    assert any("corrupt" in message and reason in message for message in caplog.messages)
    assert result(program.start()) == ["hit"]


def test_an_entry_under_another_key_is_stale_and_not_used(program, cache):
    program.start()
    moved = entries(cache / "pieces")
    data = [path.read_bytes() for path in moved]
    for path, other in zip(moved, reversed(data), strict=True):
        path.write_bytes(other)
    for path in entries(cache / "models"):
        path.unlink()
    assert result(program.start(), "ours") == ["stale", "stale"]


def test_what_a_compiler_can_not_load_is_reported_and_compiled_anew(program, cache):
    program.start()
    for path in entries(cache):
        key = path.parent.parent.name
        entry = from_bytes(path.read_bytes(), key)
        sections = {
            **entry.sections,
            **{name: b"nonsense" for name in ("artifact", "model") if name in entry.sections},
        }
        path.write_bytes(
            to_bytes(Entry(key=key, factors=entry.factors, about=entry.about, sections=sections, made=1.0))
        )
    heard = program.start()
    assert result(heard) == ["stale"]
    assert "loading failed" in looked_up(heard)[0].reason
    assert result(heard, "ours") == ["stale", "stale"]


@pytest.mark.skipif(os.getuid() == 0, reason="root may write anywhere")
def test_a_folder_without_write_permission_works_and_is_said_for_a_user(program, cache):
    cache.mkdir()
    cache.chmod(stat.S_IRUSR | stat.S_IXUSR)
    heard = program.start()
    assert [problem.reason for problem in heard.of(CacheProblem)]


def test_a_folder_that_can_not_be_written_to_works_and_is_said(program, cache, caplog):
    cache.write_text("a file where the folder should be")
    with caplog.at_level(logging.WARNING, "compdbg.compiler"):
        heard = program.start()
    problems = heard.of(CacheProblem)
    assert problems and all("can't be written to" in problem.reason for problem in problems)
    assert any("compiling without a cache" in message for message in caplog.messages)


def test_the_switch_in_the_environment_turns_it_off(program, cache, monkeypatch):
    monkeypatch.setenv("COMPDBG_DISABLE_COMPILE_CACHE", "1")
    heard = program.start()
    assert result(heard) == ["disabled"]
    assert not cache.exists()
    monkeypatch.setenv("COMPDBG_DISABLE_COMPILE_CACHE", "0")
    assert result(program.start()) == ["miss"]


def test_a_dump_holds_the_readable_copies_by_rank_graph_piece_and_range(program, tmp_path, monkeypatch):
    dump = tmp_path / "dump"
    monkeypatch.setenv("COMPDBG_DEBUG_DUMP_PATH", str(dump))
    monkeypatch.setenv("COMPDBG_DISABLE_COMPILE_CACHE", "1")
    graph = program.start().of(Piece)[0].graph
    assert {str(path.relative_to(dump)) for path in dump.rglob("*.py")} == {
        f"rank_0/{graph}/computation_graph.py",
        f"rank_0/{graph}/transformed_code.py",
        f"rank_0/{graph}/piece_0/1-/computation_graph.py",
        f"rank_0/{graph}/piece_2/1-/computation_graph.py",
    }


def test_a_dump_folder_that_can_not_be_written_to_does_no_harm(program, tmp_path, monkeypatch, caplog):
    (tmp_path / "dump").write_text("a file")
    monkeypatch.setenv("COMPDBG_DEBUG_DUMP_PATH", str(tmp_path / "dump"))
    with caplog.at_level(logging.WARNING, "compdbg.compiler"):
        program.start()
    assert any("debug_dump_path" in message for message in caplog.messages)


def test_ranks_keep_their_entries_apart(program, cache, monkeypatch):
    program.start()
    monkeypatch.setenv("RANK", "3")
    assert result(program.start()) == ["miss"]
    assert {p.parent.name for p in entries(cache)} == {"rank_0", "rank_3"}


def test_leftovers_of_killed_writers_are_removed_by_the_next(program, cache):
    program.start()
    (model,) = (cache / "models").iterdir()
    left = model / "rank_0" / ".entry.999999999.abcd.partial"
    left.write_bytes(b"half")
    living = model / "rank_0" / f".entry.{os.getpid()}.abcd.partial"
    living.write_bytes(b"half")
    program.start(bias=9.0)
    assert not left.exists()
    assert living.exists()


@pytest.mark.slow
def test_through_inductor_a_warm_start_says_which_passes_made_what_it_runs(program):
    program.config = CompilationConfig(backend="inductor", splitting_ops=[f"{program.op}::attention"])
    program.start()
    heard = program.start()
    assert result(heard) == ["hit"]
    works = heard.of(CachedWork)
    assert [work.graph.split(" ", 1)[1] for work in works] == ["piece_0 1-", "piece_2 1-"]
    assert [run.pass_name for run in works[0].passes] == [
        "NoOpEliminationPass",
        "ResidualSumPass",
        "PostCleanupPass",
        "FixFunctionalizationPass",
    ]
    program.change("h * FACTOR", "h * (FACTOR)")
    heard = program.start()
    assert result(heard, "ours") == ["hit", "hit"]
    assert [work.layer for work in heard.of(CachedWork)] == ["ours", "ours"]


def test_an_entry_survives_the_round_trip_and_nothing_else_does():
    entry = Entry(
        key="k", factors={"a": "1"}, about={"n": [1, None]}, sections={"s": b"\n\x00bytes"}, made=5.0
    )
    assert from_bytes(to_bytes(entry), "k") == entry
    with pytest.raises(Unusable, match="for the key k") as raised:
        from_bytes(to_bytes(entry), "other")
    assert raised.value.result == "stale"
