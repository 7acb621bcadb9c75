"""Hits, misses with their reasons, bypasses, and caches that can't be used. No kernel is compiled here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from compdbg.events import CachedWork, GeneratedCode, Graph, HookError
from compdbg.findings.base import Finding
from compdbg.findings.collect import find_all
from compdbg.hooks import cachekeys
from compdbg.model.run import Run
from compdbg.views.all import VIEWS
from compdbg.views.base import Source

# torch's own modules warn of deprecated parts of torch when they are imported.
pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore::DeprecationWarning:torch"),
    pytest.mark.filterwarnings("ignore:dynamo_pgo force disabled"),
]
KV = "(Tensor x, Tensor(a!) k, Tensor(b!) v) -> ()"
X, W = torch.ones(4, 8), torch.ones(8, 8)


def project(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return x @ w


@pytest.fixture
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Fresh caches of torch's and of ours, and no settings left by earlier compiles."""
    from torch._inductor.utils import clear_caches

    folder = tmp_path / "torchinductor"
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    clear_caches()
    yield folder
    clear_caches()


@pytest.fixture
def start(cache_folder: Path, record_here: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Run]:
    """One start of a program that compiles `fn`, as a process of its own sees it."""
    count = iter(range(1000))

    def run(
        fn: Callable[..., Any] = project, *args: Any, config: dict[str, Any] | None = None, **options: Any
    ) -> Run:
        import torch._inductor.config

        torch._dynamo.reset()
        monkeypatch.setattr(cachekeys, "THIS_PROCESS", f"process {next(count)}")
        with record_here(**options) as run, torch._inductor.config.patch(config or {}), torch.no_grad():
            torch.compile(fn)(*(args or (X, W)))
        loaded: Run = run.load()
        assert [event for _, event in loaded.log.of(HookError)] == []
        return loaded

    return run


def results(run: Run) -> dict[str, str]:
    return {lookup.layer: lookup.result for lookup in run.lookups}


def found(run: Run, *codes: str) -> list[Finding]:
    return [f for f in find_all(run) if f.code in codes]


def test_a_cold_start_misses_and_is_no_finding(start: Any) -> None:
    run = start()
    assert results(run) == {"aot": "miss", "fx": "miss"}
    assert run.summary.cold is True
    assert found(run, "cache-miss", "cache-unusable") == []
    view = VIEWS["cache"](Source(run, []))
    assert "cold: no earlier entry is known for any of these functions" in view.lines


def test_a_warm_start_hits_and_shows_what_the_artifact_was_made_of(start: Any) -> None:
    cold, warm = start(), start()
    assert results(warm) == {"aot": "hit", "fx": "hit"}
    assert warm.summary.cold is False
    assert [f.code for f in find_all(warm)] == []
    assert {e.key for e in warm.lookups} == {e.key for e in cold.lookups}
    (stage,) = [g for _, g in warm.log.of(Graph) if g.stage == "post-grad"]
    assert stage.cached
    assert "torch.ops.aten.mm.default" in (warm.log.text(stage.text) or "")
    ((_, code),) = warm.log.of(GeneratedCode)
    assert "extern_kernels.mm" in (warm.log.text(code.text) or "")


def test_a_digest_among_the_factors_is_shown_as_digits(start: Any) -> None:
    run = start()
    (aot,) = [lookup for lookup in run.lookups if lookup.layer == "aot"]
    lines = (run.log.text(aot.factors) or "").splitlines()
    (digest,) = [line.partition(" torch_version: ")[2] for line in lines if " torch_version: " in line]
    assert digest.isalnum() and digest.isascii()


def test_recording_changes_no_key(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    with torch.no_grad():
        torch.compile(project)(X, W)
    counters.clear()
    assert results(start()) == {"aot": "hit", "fx": "hit"}


TRANSPOSED = False


def configured(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return (x @ w).t() if TRANSPOSED else x @ w


class TestMisses:
    def test_a_changed_graph(self, start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        start(configured)
        monkeypatch.setattr(f"{__name__}.TRANSPOSED", True)
        second = start(configured)
        (finding,) = found(second, "cache-miss")
        assert finding.severity == "info"
        assert finding.data["layer"] == "aot"
        assert finding.data["changed_factors"] == ["gm"]
        assert ".t()" in finding.cause
        assert finding.where is not None
        assert finding.where.function == "configured"

    def test_a_changed_setting(self, start: Any) -> None:
        start()
        second = start(config={"epilogue_fusion": False})
        (finding,) = found(second, "cache-miss")
        assert finding.data["changed_factors"] == ["inductor_config[epilogue_fusion]"]
        assert "True before, False now" in finding.cause

    def test_what_is_in_the_key_and_does_not_matter(self, start: Any) -> None:
        start()
        second = start(config={"epilogue_fusion": False})
        (finding,) = found(second, "cache-miss")
        assert finding.data["irrelevant"] is True
        assert "is in the key but does not matter" in finding.cause
        assert [(e.layer, e.remade) for e in second.lookups] == [("aot", False), ("fx", True)]
        assert any("does not matter here" in line for line in VIEWS["cache"](Source(second, [])).below)

    def test_what_is_in_the_key_and_matters(self, start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        start(configured)
        monkeypatch.setattr(f"{__name__}.TRANSPOSED", True)
        (finding,) = found(start(configured), "cache-miss")
        assert finding.data["irrelevant"] is False
        assert "does not matter" not in finding.cause

    def test_a_changed_input(self, start: Any) -> None:
        start()
        second = start(project, torch.ones(5, 8), W)
        (finding,) = found(second, "cache-miss")
        assert "example_inputs[0]" in finding.data["changed_factors"]

    def test_the_nearest_of_several_keys(self, start: Any) -> None:
        start(config={"epilogue_fusion": False, "prologue_fusion": False, "max_fusion_size": 7})
        near = start(config={"epilogue_fusion": False})
        third = start()
        (miss, _) = third.lookups
        assert [c.name for c in miss.changed_factors or []] == ["inductor_config[epilogue_fusion]"]
        assert miss.nearest_key == near.lookups[0].key
        assert miss.nearest_run == near.log.folder.name

    def test_an_entry_that_is_gone(self, start: Any, cache_folder: Path) -> None:
        import shutil

        start()
        shutil.rmtree(cache_folder)
        (finding,) = found(start(), "cache-miss")
        assert finding.data["changed_factors"] == []
        assert "its entry is gone" in finding.cause

    def test_an_entry_of_the_second_layer_that_is_gone(self, start: Any, cache_folder: Path) -> None:
        import shutil

        start()
        shutil.rmtree(cache_folder / "fxgraph")
        run = start()
        assert results(run) == {"aot": "miss", "fx": "miss"}
        assert found(run, "cache-unusable") == []
        (finding,) = found(run, "cache-miss")
        assert "needs one of the FX-graph cache" in finding.cause

    def test_another_cache_folder(self, start: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        start()
        monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "elsewhere"))
        (finding,) = found(start(), "cache-miss")
        assert f"torch looks in {tmp_path / 'elsewhere'} now" in finding.cause

    def test_a_key_of_the_same_folder_goes_before_a_nearer_one_of_another(
        self, start: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        here = start(config={"epilogue_fusion": False, "prologue_fusion": False})
        with monkeypatch.context() as patch:
            patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "elsewhere"))
            elsewhere = start(config={"max_fusion_size": 7})
        both = start(config={"epilogue_fusion": False, "prologue_fusion": False, "max_fusion_size": 7})
        assert (both.lookups[0].nearest_run, both.lookups[0].nearest_folder) == (here.log.folder.name, "")
        monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "a third"))
        (finding,) = found(start(config={"max_fusion_size": 8}), "cache-miss")
        assert f"of run {elsewhere.log.folder.name} (of another cache folder, {tmp_path / 'elsewhere'})" in (
            finding.cause
        )

    def test_compiles_of_one_process_are_not_compared_with_each_other(
        self, cache_folder: Path, record_here: Any
    ) -> None:
        with record_here() as recording, torch.no_grad():
            compiled = torch.compile(project, dynamic=False)
            compiled(X, W)
            compiled(X[:2], W)
        run = recording.load()
        assert [e.result for e in run.lookups] == ["miss"] * 4
        assert found(run, "cache-miss") == []


class TestUnusable:
    def test_a_custom_pass_without_an_identity(self, start: Any) -> None:
        run = start(config={"post_grad_custom_post_pass": lambda graph: None})
        assert results(run) == {"aot": "bypass", "fx": "bypass"}
        (finding,) = found(run, "cache-unusable")
        assert finding.severity == "warning"
        assert finding.data["kind"] == "bypass"
        assert finding.data["layers"] == ["aot", "fx"]
        assert "uuid()" in finding.suggestion

    def test_a_custom_pass_with_one_is_cached(self, start: Any) -> None:
        with _custom_pass() as custom:
            cold, warm = (start(config={"post_grad_custom_post_pass": custom}) for _ in range(2))
        assert results(cold) == {"aot": "miss", "fx": "miss"}
        assert results(warm) == {"aot": "hit", "fx": "hit"}
        assert found(warm, "cache-unusable") == []
        ((_, work),) = warm.log.of(CachedWork)
        assert [p.pass_name for p in work.passes if p.custom] == ["Named"]
        rows = [p for p in warm.passes if p.cached]
        assert [(p.name, p.run) for p in rows if p.custom] == [("Named", cold.log.folder.name)]

    def test_caches_that_the_user_switched_off(self, start: Any) -> None:
        run = start(config={"force_disable_caches": True})
        assert {(e.layer, e.result, e.reason) for e in run.lookups} == {
            ("aot", "disabled", "force_disable_caches is set"),
            ("fx", "disabled", "force_disable_caches is set"),
        }
        assert [f.code for f in find_all(run)] == []

    def test_a_folder_that_cannot_be_written(self, start: Any, cache_folder: Path) -> None:
        cache_folder.mkdir()
        (cache_folder / "fxgraph").write_text("a file in the folder's place")
        run = start()
        (finding,) = found(run, "cache-unusable")
        assert finding.severity == "warning"
        assert finding.data["kind"] == "unwritable"
        assert finding.data["path"].endswith("/torchinductor/fxgraph")

    @pytest.mark.parametrize(("layer", "folder"), [("aot", "aotautograd"), ("fx", "fxgraph")])
    def test_a_corrupt_entry(self, start: Any, cache_folder: Path, layer: str, folder: str) -> None:
        start()
        for path in (cache_folder / folder).rglob("*"):
            if path.is_file():
                path.write_bytes(path.read_bytes()[:100])
        run = start()
        assert (layer, "corrupt") in {(e.layer, e.result) for e in run.lookups}
        (finding,) = found(run, "cache-unusable")
        assert finding.data["kind"] == "corrupt"
        assert finding.data["layers"] == [layer]
        assert finding.data["path"].endswith(f"/torchinductor/{folder}")


@contextmanager
def _custom_pass() -> Iterator[Any]:
    from torch._inductor.custom_graph_pass import CustomGraphPass

    class Named(CustomGraphPass):  # type: ignore[misc]
        def __call__(self, graph: Any) -> None:
            pass

        def uuid(self) -> str:
            return "named, first version"

    yield Named()


class TestWhatIsKeptOfKeys:
    def test_the_last_keys_of_each_function_and_no_more(self, cache_folder: Path) -> None:
        for n in range(20):
            record = cachekeys.new_record("aot", "f", f"key {n}", {"a": (str(n), str(n))}, "run", "folder")
            cachekeys.remember(record)
        kept = [p for p in cachekeys.home().rglob("*") if p.is_file()]
        assert len(kept) == cachekeys.KEYS
        assert cachekeys.recall("aot", "f", "key 19") is not None
        assert cachekeys.recall("aot", "f", "key 0") is None

    def test_a_damaged_record_is_no_record(self, cache_folder: Path) -> None:
        cachekeys.remember(cachekeys.new_record("aot", "f", "key", {}, "run", "folder"))
        for path in cachekeys.home().rglob("*.z"):
            path.write_bytes(b"damaged")
        assert cachekeys.recall("aot", "f", "key") is None

    def test_a_folder_that_cannot_be_written_is_no_fault(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
        cachekeys.remember(cachekeys.new_record("aot", "f", "key", {}, "run", "folder"))
        assert cachekeys.recall("aot", "f", "key") is None

    def test_nothing_of_ours_is_in_torchs_folders(
        self, start: Any, cache_folder: Path, tmp_path: Path
    ) -> None:
        start()
        ours = list(cachekeys.home().rglob("*.z"))
        assert ours
        assert all(cache_folder not in p.parents for p in ours)

    def test_home_is_not_in_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOME", "/home/somebody")
        assert cachekeys.redacted("path=/home/somebody/model.py") == "path=~/model.py"

    def test_no_code_where_none_is_to_be_recorded(self, start: Any) -> None:
        run = start(source=False)
        for lookup in run.lookups:
            text = run.log.text(lookup.factors) or ""
            assert "inductor_config" in text
            assert "def forward" not in text


@torch.library.custom_op("caches::write_kv", mutates_args=("k", "v"), schema=KV)
def write_kv(x: Any, k: Any, v: Any) -> None:
    k[0].copy_(x)
    v[0].copy_(x)


def step(x: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    torch.ops.caches.write_kv(x, k, v)
    return x + k[0] + v[0]


class TestWhoServed:
    def test_a_cold_start_is_compiled(self, start: Any) -> None:
        run = start()
        assert [e.served_by for e in run.lookups] == [None, None]
        assert "served: 1 compiled" in VIEWS["cache"](Source(run, [])).lines

    def test_a_warm_start_is_served_by_the_outer_layer(self, start: Any) -> None:
        start()
        run = start()
        assert [e.served_by for e in run.lookups] == ["aot", "aot"]
        assert "served: 1 by the AOT cache" in VIEWS["cache"](Source(run, [])).lines

    def test_the_inner_layer_where_the_outer_has_no_entry(self, start: Any, cache_folder: Path) -> None:
        import shutil

        start()
        shutil.rmtree(cache_folder / "aotautograd")
        run = start()
        assert results(run) == {"aot": "miss", "fx": "hit"}
        assert [e.served_by for e in run.lookups] == ["fx", "fx"]


def test_a_custom_op_is_in_the_graph_and_its_kernel_in_no_key(start: Any) -> None:
    run = start(lambda x, w: torch.ops.caches.scale(x @ w), X, W)
    assert [e.not_in_key for e in run.lookups] == [["caches::scale"], ["caches::scale"]]
    lines = VIEWS["cache"](Source(run, [])).lines
    assert any("in no key of torch's: code and fake of caches::scale;" in line for line in lines)
    assert [e.not_in_key for e in start().lookups] == [[], []]


@torch.library.custom_op("caches::scale", mutates_args=())
def scale_op(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@scale_op.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


@pytest.mark.slow
@pytest.mark.parametrize("recorded", [True, False], ids=["recorded", "unrecorded"])
def test_a_copy_that_is_kept_is_known_of_a_warm_start_too(start: Any, recorded: bool) -> None:
    import shutil

    pool = torch.zeros(2, 1000, 4)
    arguments = (step, torch.ones(4), pool[0], pool[1])
    start(*arguments)
    if not recorded:
        shutil.rmtree(cachekeys.home())
    warm = start(*arguments)
    assert results(warm) == {"aot": "hit", "fx": "hit"}
    (finding,) = found(warm, "clone-kept")
    assert finding.data["bytes"] == 32000
    assert finding.where is not None
    assert finding.where.function == "step"


def test_a_row_of_the_view_has_the_keys_of_the_contract(start: Any) -> None:
    row = msgspec.to_builtins(start().lookups[0])
    wanted = "piece range layer result key factors changed_factors nearest_key reason bytes duration_ms"
    assert set(wanted.split()) <= set(row)
