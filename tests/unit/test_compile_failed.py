"""What `compile-failed` says where Inductor raised while it was fitting a pattern, and where it wasn't."""

from __future__ import annotations

from compdbg.events import CompileError, Where
from compdbg.findings.collect import find_all
from tests.unit.test_pipeline_model import run_of


def failed(pattern: str | None):
    error = CompileError(
        frame="/home/me/model.py:12:forward",
        compile_id="0/0",
        stage="inductor",
        error="InductorError",
        message="shapes differ",
        root_error="RuntimeError",
        root_message="shapes differ",
        op="aten.expand.default",
        where=Where("/home/me/model.py", 12, "forward"),
        pattern=pattern,
    )
    (finding,) = find_all(run_of(error))
    return finding


def test_the_pattern_is_named_with_what_to_do_without_it():
    finding = failed("_sfdp_pattern_18")
    assert (finding.code, finding.data["pattern"]) == ("compile-failed", "_sfdp_pattern_18")
    assert "Inductor was fitting the pattern _sfdp_pattern_18 to the graph there" in finding.cause
    assert "torch._inductor.config.pattern_matcher = False" in finding.suggestion


def test_without_one_the_stage_is_narrowed_down():
    finding = failed(None)
    assert finding.data["pattern"] is None
    assert "pattern" not in finding.cause
    assert "backend='aot_eager'" in finding.suggestion
