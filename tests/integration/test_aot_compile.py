"""Functions compiled ahead of time are frames like others, with a start, an end and what went wrong."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from compdbg.compiler import CompilationConfig, support_torch_compile, use_config  # noqa: E402
from compdbg.events import FrameCalls, FrameEnd, FrameStart, GraphBreak, GuardAudit, GuardViolation  # noqa: E402
from compdbg.findings.collect import find_all  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")]


def scaled(x):
    return torch.relu(x) * 2


def breaking(x):
    torch._dynamo.graph_break()
    return x + 1


def branching(x):
    if x.shape[0] > 10:
        return x * 2
    return x + 1


def aot_compiled(function, x):
    options = {"guard_filter_fn": torch.compiler.skip_all_guards_unsafe}
    return torch.compile(function, fullgraph=True, options=options).aot_compile(((x,), {}))


def test_a_compile_has_a_start_and_an_end(record_here):
    x = torch.randn(4)
    with record_here() as recording:
        compiled = aot_compiled(scaled, x)
        torch.testing.assert_close(compiled(x), scaled(x))
    log = recording.load().log
    (start,) = [event for _, event in log.of(FrameStart)]
    (end,) = [event for _, event in log.of(FrameEnd)]
    assert start.frame == end.frame == f"{__file__}:{scaled.__code__.co_firstlineno}:scaled"
    assert start.where.line == scaled.__code__.co_firstlineno
    assert (end.result, end.compile_id) == ("compiled", start.compile_id)
    assert start.request
    assert [event.calls for _, event in log.of(FrameCalls)] == [1]
    assert end.duration_ms > 0


def test_a_branch_on_a_size_is_a_difference_with_its_line(record_here):
    """Its guards are built outside any compile of torch's; the audit knows their lines all the same."""
    x = torch.randn(16, 4)
    torch._dynamo.mark_dynamic(x, 0)
    with record_here() as recording:
        compiled = aot_compiled(branching, x)
        for rows in (16, 12, 4, 4):
            compiled(torch.randn(rows, 4))
    log = recording.load().log
    (violation,) = [event for _, event in log.of(GuardViolation)]
    assert (violation.call, violation.effect, violation.guard_kind) == (3, "differs", "shape")
    assert violation.where.line == branching.__code__.co_firstlineno + 1
    (audit,) = [event for _, event in log.of(GuardAudit)][-1:]
    assert (audit.calls, sum(audit.causes.values())) == (4, 2)


def test_a_graph_break_is_fatal_and_named(record_here):
    with record_here() as recording, pytest.raises(torch._dynamo.exc.Unsupported):
        aot_compiled(breaking, torch.randn(4))
    log = recording.load().log
    (end,) = [event for _, event in log.of(FrameEnd)]
    assert end.result == "failed"
    (found,) = [event for _, event in log.of(GraphBreak)]
    assert found.fatal
    assert found.where.line == breaking.__code__.co_firstlineno + 1


def test_a_model_that_computes_nothing_is_no_failure_of_its_compile(record_here, tmp_path):
    @support_torch_compile(dynamic_arg_dims={"x": 0})
    class Passing(torch.nn.Module):
        def forward(self, x, y):
            return y, x

    config = CompilationConfig(backend="eager", cache_dir=str(tmp_path))
    with record_here() as recording, use_config(config):
        Passing()(torch.ones(3, 4), torch.ones(2))
    run = recording.load()
    (end,) = [event for _, event in run.log.of(FrameEnd)]
    assert (end.result, end.reason) == ("eager", "its graph holds no operation")
    assert [finding for finding in find_all(run) if finding.severity == "error"] == []
