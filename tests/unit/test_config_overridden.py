"""Which settings are overridden, and which are only settled, sorted or replaced by their owner."""

from __future__ import annotations

import pytest

from compdbg.compiler import CompilationConfig, CompilationMode, CUDAGraphMode
from compdbg.compiler.config import PassConfig
from compdbg.compiler.effective import emit_config, resolve
from compdbg.events import CompileRequest, ConfigValue, CudagraphSkip, Event, TorchLoaded, Where
from compdbg.findings.config_overridden import config_overridden
from tests.unit.test_pipeline_model import run_of


def found(*events: Event):
    return list(config_overridden(run_of(*events)))


def changed(key: str, requested: str, effective: str, asked: bool = True, **more: str) -> ConfigValue:
    who = {"changed_by": "CpuPlatform (vllm/platforms/cpu.py:319)", **more}
    return ConfigValue(key=key, requested=requested, effective=effective, asked=asked, **who)


def test_who_changed_it_and_why():
    (finding,) = found(changed("cudagraph_mode", "FULL", "NONE", why="the platform has no graphs"))
    assert (finding.code, finding.severity) == ("config-overridden", "warning")
    assert finding.title == (
        "cudagraph_mode is NONE, not FULL: changed by CpuPlatform (vllm/platforms/cpu.py:319)"
    )
    assert "the platform has no graphs" in finding.cause
    assert finding.data["requested"] == {"cudagraph_mode": "FULL"}


def test_of_a_backend_that_runs_no_passes_the_title_says_so():
    why = "the backend is eager: only Inductor runs passes"
    (finding,) = found(
        changed("pass_config.fuse_norm_quant", "true", "false", changed_by="the compiler", why=why)
    )
    assert finding.title == f"pass_config.fuse_norm_quant is false, not true: {why}"
    assert finding.suggestion == "Compile with Inductor (backend='inductor'), or leave the setting out."


@pytest.mark.parametrize(
    "event",
    [
        changed("cudagraph_mode", "FULL", "NONE", asked=False),
        changed("cudagraph_mode", "", "NONE"),
        changed("cudagraph_mode", "FULL", "FULL"),
        changed("cudagraph_mode", "FULL", "NONE", changed_by=""),
        changed("cudagraph_capture_sizes", "[4, 2, 1]", "[1, 2, 4]"),
        changed("custom_ops", "['+rms_norm']", "['+rms_norm', 'none']"),
        changed("compile_sizes", "['cudagraph_capture_sizes']", "[1, 2, 4]"),
        changed("inductor_compile_config", "{'a': False}", "{'a': False, 'pass': <vllm.Manager object>}"),
        changed("splitting_ops", "['vllm::attention']", "['vllm::attention', 'vllm::mamba" + "x" * 370),
    ],
    ids=[
        "a default",
        "left open",
        "as asked",
        "by nobody",
        "sorted",
        "added to",
        "filled in",
        "a dict added to",
        "cut off",
    ],
)
def test_look_alikes(event: ConfigValue):
    assert found(event) == []


def test_an_item_that_is_gone_is_overridden():
    (finding,) = found(changed("cudagraph_capture_sizes", "[1, 2, 512]", "[1, 2]"))
    assert finding.data["effective"] == {"cudagraph_capture_sizes": "[1, 2]"}


def test_an_item_of_a_dict_that_is_another_is_overridden():
    (finding,) = found(changed("inductor_compile_config", "{'a': False}", "{'a': True, 'b': <object>}"))
    assert finding.data["keys"] == ["inductor_compile_config"]


class TestBuiltInCompiler:
    def settled(self, config: CompilationConfig, monkeypatch: pytest.MonkeyPatch):
        """What is found of a configuration that is resolved."""
        events: list[Event] = []
        monkeypatch.setattr("compdbg.probe.active", lambda: True)
        monkeypatch.setattr("compdbg.probe.emit", events.append)
        emit_config(config, resolve(config))
        return found(*events)

    def test_a_mode_that_captures_nothing_is_one_cause(self, monkeypatch: pytest.MonkeyPatch):
        config = CompilationConfig(
            mode=CompilationMode.DYNAMO_TRACE_ONCE,
            cudagraph_mode=CUDAGraphMode.PIECEWISE,
            cudagraph_capture_sizes=[1, 2],
            splitting_ops=["demo::attention"],
        )
        (finding,) = self.settled(config, monkeypatch)
        assert finding.data["keys"] == ["splitting_ops", "cudagraph_mode", "cudagraph_capture_sizes"]
        assert "mode is DYNAMO_TRACE_ONCE" in finding.cause

    def test_a_fusion_without_a_pass(self, monkeypatch: pytest.MonkeyPatch):
        config = CompilationConfig(pass_config=PassConfig(fuse_norm_quant=True))
        (finding,) = self.settled(config, monkeypatch)
        assert finding.data["changed_by"] == "the pass manager"

    @pytest.mark.parametrize(
        "config",
        [
            CompilationConfig(),
            CompilationConfig(mode=CompilationMode.STOCK_TORCH_COMPILE),
            CompilationConfig(mode=CompilationMode.NONE, cudagraph_mode=CUDAGraphMode.FULL),
            CompilationConfig(cudagraph_mode=CUDAGraphMode.PIECEWISE, cudagraph_capture_sizes=[8, 1]),
        ],
        ids=["defaults", "another mode", "turned off", "sorted"],
    )
    def test_look_alikes(self, config: CompilationConfig, monkeypatch: pytest.MonkeyPatch):
        assert self.settled(config, monkeypatch) == []

    def test_what_the_command_line_says_is_no_override(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("COMPDBG_CC", '{"cudagraph_mode": "NONE"}')
        assert self.settled(CompilationConfig(cudagraph_mode=CUDAGraphMode.FULL), monkeypatch) == []

    def test_what_the_command_line_asks_for_can_be_overridden(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("COMPDBG_CC", '{"mode": "STOCK_TORCH_COMPILE", "cudagraph_mode": "PIECEWISE"}')
        (finding,) = self.settled(CompilationConfig(), monkeypatch)
        assert "cudagraph_mode" in finding.data["keys"]


class TestCudaGraphs:
    ASKED = CompileRequest(target="f", where=Where("f.py", 3), mode="reduce-overhead", backend="inductor")
    SKIPPED = CudagraphSkip(reason="mutated inputs (1 instances)", graph="0/0", where=Where("f.py", 7))

    def test_not_used_on_a_machine_that_has_them(self):
        cuda = TorchLoaded(torch="2.13", device="cuda")
        (finding,) = found(cuda, self.ASKED, self.SKIPPED)
        assert finding.title == (
            "CUDA graphs are asked for and not used for 1 graph: mutated inputs (1 instances)"
        )
        assert finding.where == Where("f.py", 7)

    def test_no_one_can_use_them_without(self):
        assert found(TorchLoaded(torch="2.13", device="cpu"), self.ASKED, self.SKIPPED) == []
