"""Dropped guards over sizes: a user's branch is wrong, torch's own caution mostly is not."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from compdbg.events import Guards, SizeBranch  # noqa: E402
from compdbg.findings.collect import find_all  # noqa: E402
from tests.integration.guards_here import alarms_of, compiled  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


def double(x):
    return x.relu() * 2


def transposed(x):
    return x.t().reshape(-1) + 1


def halves(x):
    return x.view(x.shape[0] // 2, 2, 3).mean(1)


def differences(x):
    return x[1:] - x[:-1]


def column_sums(x):
    return x.sum(0)


def if_one(x):
    if x.shape[0] == 1:
        return x - 1
    return x + 1


def if_many(x):
    y = x + 1
    return y * 3 if x.size(0) > 1 else y


def if_empty(x):
    return x.new_ones(2) if x.numel() == 0 else x.sum(0)


def if_even(x):
    return x * 2 if x.shape[0] % 2 == 0 else x


def if_contiguous(x):
    return x.t() * 2 if x.t().is_contiguous() else x.t() * 3


def squeezed(x):
    return x.squeeze(0) * 2


def first_two(x):
    return x[:2] * 2


def two_branches(x):
    if x.shape[0] > 4:
        x = x * 2
    if x.shape[0] * 2 > 6:
        x = x + 1
    return x


def repeated(x, n):
    return x * 2 if n > 3 else x * 7 * n


def calls(function, recording, sizes, backend="eager", rows=6):
    """The compiled function over these sizes; whether each result is eager's, and the run."""
    with recording as recorded:
        step = compiled(function, backend)
        first = torch.randn(rows, 3)
        torch._dynamo.maybe_mark_dynamic(first, 0)
        step(first)
        right = []
        for size in sizes:
            x = torch.randn(size, 3)
            right.append(_alike(step, function, x))
    return right, recorded.load()


def _alike(step, function, x):
    wanted = function(x)
    try:
        result = step(x)
    except Exception:
        return False
    return result.shape == wanted.shape and torch.allclose(result, wanted)


@pytest.mark.parametrize(
    ("function", "sizes", "line"),
    [
        (if_one, (4, 1), 1),
        (if_many, (4, 1), 2),
        (if_empty, (4, 0), 1),
        (if_even, (4, 5), 1),
        (if_contiguous, (4, 1), 1),
        (two_branches, (5, 3), 1),
    ],
)
def test_a_branch_of_the_users_is_an_error_at_its_line(record_here, function, sizes, line):
    right, run = calls(function, record_here(), sizes)
    assert right == [True, False]
    (finding,) = alarms_of(run)
    assert (finding.severity, finding.data["kind"], finding.data["violations"]) == ("error", "shape", 1)
    assert finding.data["call"] == 3
    assert finding.where.line == function.__code__.co_firstlineno + line


@pytest.mark.parametrize(
    ("function", "sizes"),
    [
        (double, (1, 0, 4)),
        (transposed, (1, 5)),
        (halves, (2, 8)),
        (differences, (2, 3)),
        (if_one, (4, 5)),
    ],
)
@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_sizes_that_nothing_looked_at_raise_no_alarm(record_here, function, sizes, backend):
    right, run = calls(function, record_here(), sizes, backend)
    assert all(right)
    assert alarms_of(run) == []


def test_a_bound_by_which_inductor_chooses_a_kernel_is_harmless(record_here):
    _, run = calls(column_sums, record_here(), (5000,), "inductor")
    assert alarms_of(run) == []


@pytest.mark.parametrize("function", [squeezed, first_two])
def test_an_op_whose_shape_is_another_at_one_is_wrong_in_generated_code(record_here, function):
    right, run = calls(function, record_here(), (4, 1), "inductor")
    assert right == [True, False]
    (finding,) = alarms_of(run)
    assert (finding.severity, finding.data["effect"]) == ("error", "differs")
    assert finding.where.line == function.__code__.co_firstlineno + 1
    assert "shape at this size" in finding.cause


@pytest.mark.parametrize("function", [squeezed, first_two])
def test_and_right_where_the_op_itself_is_called(record_here, function):
    right, run = calls(function, record_here(), (4, 1))
    assert (right, alarms_of(run)) == ([True, True], [])


def test_an_int_argument_that_decides_is_a_constant(record_here):
    with record_here() as recorded:
        step = compiled(repeated, dynamic=True)
        x = torch.ones(3)
        results = [step(x, n) for n in (5, 6, 2)]
    assert not torch.equal(results[2], repeated(x, 2))
    (finding,) = alarms_of(recorded.load())
    assert (finding.data["kind"], finding.data["violations"]) == ("constant", 1)
    assert "n >= 4" in finding.title


def test_decisions_that_sizes_zero_or_one_reverse_are_recorded(record_here):
    _, run = calls(if_one, record_here(), ())
    (branch,) = [event for _, event in run.log.of(SizeBranch)]
    assert (branch.expr, branch.result, branch.flips_at) == ("x.shape[0] == 1", False, [1])
    assert branch.symbols == ["L['x'].size()[0]"]
    assert branch.where.line == if_one.__code__.co_firstlineno + 1
    _, clean = calls(transposed, record_here(), ())
    assert clean.log.of(SizeBranch) == []


def test_guards_have_the_layer_that_added_them(record_here):
    _, run = calls(column_sums, record_here(), (), "inductor")
    ((_, event),) = run.log.of(Guards)
    layers = {guard.expr: guard.layer for guard in event.guards if guard.type == "SHAPE_ENV"}
    assert layers["2 <= L['x'].size()[0]"] == "dynamo"
    assert "inductor" in layers.values()


def test_torchs_own_texts_are_as_without_us(record_here):
    """Our wrappers stand in the stack in which torch looks for where a guard came from."""
    x = torch.randn(6, 3)
    torch._dynamo.mark_dynamic(x, 0)
    texts = []
    for context in (record_here(), None):
        torch._dynamo.reset()
        if context is None:
            texts.append(_shape_guard_texts(x))
        else:
            with context:
                texts.append(_shape_guard_texts(x))
    assert texts[0] == texts[1]
    assert any("evaluate_expr" in text for text in texts[0])


def _shape_guard_texts(x):
    torch.compile(two_branches, backend="eager")(x)
    (entry,) = torch._dynamo.eval_frame._debug_get_cache_entry_list(two_branches)
    leaves = entry.guard_manager.root.get_epilogue_lambda_guards()
    return [text for leaf in leaves for text in leaf.verbose_code_parts() if "size()" in text]


def marked(x):
    torch._dynamo.maybe_mark_dynamic(x, 0)
    return x


def if_both_eight(x, y):
    if x.shape[0] == 8 and y.shape[0] == 8:
        return x.sum() + y.sum() * 2
    return x.sum()


def if_eight(x):
    return x * 2 if x.shape[0] == 8 else x


def in_eights(x):
    return x.view(8, -1).sum(1)


def alarms_and_guards(run):
    found = [f for f in find_all(run.load()) if f.severity != "info" or f.code == "guard-dropped-violated"]
    return [(f.code, f.severity) for f in found], found[0]


@pytest.mark.parametrize(("step", "inputs"), [(if_eight, 1), (if_both_eight, 2)])
def test_a_marked_size_that_was_fixed_and_is_now_wrong_is_one_finding(record_here, step, inputs):
    """Wrong results are named; that the size was asked to vary, and its line, are their evidence."""
    with record_here() as run:
        function = compiled(step)
        function(*(marked(torch.ones(8, 3)) for _ in range(inputs)))
        function(*(torch.ones(4, 3) for _ in range(inputs)))
    codes, finding = alarms_and_guards(run)
    assert codes == [("guard-dropped-violated", "error")]
    assert "marked dynamic (maybe_mark_dynamic) but became 8 at test_guards_sizes.py" in finding.cause
    fixed = {event for each in run.load().dimensions if each.fixed for event in each.events}
    assert len(fixed) == 2 * inputs
    assert fixed <= set(finding.evidence)


def test_a_marked_size_that_was_fixed_and_is_harmless_is_told_as_fixed(record_here):
    with record_here() as run:
        function = compiled(in_eights)
        function(marked(torch.ones(8, 3)))
        function(torch.ones(16, 3))
    codes, _ = alarms_and_guards(run)
    assert codes == [("dim-specialised", "warning")]
