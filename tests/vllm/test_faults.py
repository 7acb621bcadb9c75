"""What goes wrong in vLLM, named: a dropped guard that was needed, a fusion that a constant prevents."""

from __future__ import annotations

from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"


def line_of(program: str, text: str) -> int:
    lines = (PROGRAMS / program).read_text().splitlines()
    return 1 + next(i for i, line in enumerate(lines) if text in line)


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_a_branch_on_the_batch_size(engine, backend):
    """vLLM runs the eager backend by swapping bytecode, and inductor as an AOT-compiled function."""
    recorded = engine.recorded("guard.py", backend, cache=f"guard-{backend}")
    assert [line.split()[-1] for line in recorded.process.stdout.splitlines()] == [
        "eager", "eager", "wrong", "wrong",
    ]  # fmt: skip
    (finding,) = recorded.found("guard-dropped-violated")
    assert finding.severity == "error"
    assert finding.where is not None
    assert Path(finding.where.file).name == "guard.py"
    assert finding.where.line == line_of("guard.py", "if x.shape[0] > 10")
    assert finding.data["kind"] == "shape"
    assert finding.data["effect"] == "differs"
    assert finding.data["violations"] == 2
    assert recorded.alarms == ["guard-dropped-violated"]


def test_a_piece_that_cannot_be_compiled(engine):
    plain = engine.plain("lowering_fails.py", cache="fails-plain")
    recorded = engine.recorded("lowering_fails.py", cache="fails")
    assert recorded.process.returncode == plain.returncode == 1
    assert recorded.process.stderr == plain.stderr
    (finding,) = recorded.found("compile-failed")
    assert (finding.data["stage"], finding.data["piece"]) == ("inductor", "0/0 submod_2 1-2048")
    assert finding.data["root_message"] == "no kernel for this"
    assert finding.where is not None
    assert finding.where.line == line_of("lowering_fails.py", "torch.ops.toy.odd(self.linear(x))")
    assert recorded.alarms == ["compile-failed"]


@pytest.fixture(scope="module")
def fused(engine):
    return engine.recorded("fusion.py", "1e-5", cache="fused", TOY_FUSIONS="1")


@pytest.fixture(scope="module")
def missed(engine):
    return engine.recorded("fusion.py", "2e-5", cache="missed", TOY_FUSIONS="1")


class TestFusion:
    def test_a_fusion_that_fires_is_counted_and_raises_no_alarm(self, engine, fused):
        assert fused.process.stdout.splitlines()[-1] == "fused kernels that ran: 2"
        rows = [r for r in engine.show(fused, "fusion") if r["pass"] == "RMSNormQuantFusionPass"]
        assert sum(r["matched"] or 0 for r in rows) == 2
        assert "missed" not in {r["outcome"] for r in rows}
        assert fused.alarms == []

    def test_a_warm_start_shows_the_count_of_the_run_that_filled_the_cache(self, engine, fused):
        warm = engine.recorded("fusion.py", "1e-5", cache="fused", TOY_FUSIONS="1")
        assert warm.process.stdout == fused.process.stdout
        rows = [r for r in engine.show(warm, "fusion") if r["pass"] == "RMSNormQuantFusionPass"]
        assert {r["outcome"] for r in rows} == {"cached"}
        assert sum(r["matched"] for r in rows) == 2
        assert warm.alarms == []

    def test_a_constant_that_the_pattern_does_not_know_is_the_reason(self, missed):
        assert missed.process.stdout.splitlines()[-1] == "fused kernels that ran: 0"
        (finding,) = missed.found("fusion-missed")
        assert finding.data["reason"] == "arg-mismatch"
        assert finding.data["sites"] == 2
        assert "RMSNormQuantFusionPass" in finding.title
        assert "2e-05" in finding.cause
        assert finding.where is not None
        assert finding.where.line == line_of("fusion.py", "vllm.ir.ops.rms_norm(")
        assert missed.alarms == ["fusion-missed"]
