"""Dropped guards on tensors, aliasing and the process's state: the effect told is the one compared.

Most programs run twice: with a backend that calls torch's ops one by one, where much is harmless,
and with Inductor, whose code relies on what it was made for.
"""

from __future__ import annotations

import functools

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from tests.integration.guards_here import Program, default_dtype, play, same_each_time  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

SQUARE = torch.randn(3, 3)


def smooth(x):
    return x.relu() + 1


def by_rank(x):
    y = x + 1
    return y * 2 if x.ndim == 2 else y


def by_dtype(x):
    y = x + 1
    return y * 2 if x.dtype == torch.float32 else y


def by_dtype_of_result(x):
    y = x + 1
    return y * 2 if y.dtype == torch.float32 else y


def mean(x):
    return x.sum(0) / x.shape[0]


def two_means(x, y):
    return x.sum(0) / x.shape[0] + y.sum() / y.shape[0]


def accumulate(a, b):
    a.add_(1)
    return a + b


def add(a, b):
    return a + 2 * b


def aliased():
    tensor = torch.ones(3)
    return tensor, tensor


def program(target, first, *later, **more):
    return Program(target, first, same_each_time(*later), **more)


def linear(change=lambda m: None, **more):
    module = nn.Linear(3, 3)
    return program(module, (SQUARE,), SQUARE, change=functools.partial(change, module), **more)


def tied(untie):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False)
            self.b.weight = self.a.weight

        def forward(self, x):
            return self.b(self.a(x))

    module = Tied()
    new = nn.Parameter(torch.zeros(3, 3))
    change = functools.partial(setattr, module.b, "weight", new) if untie else lambda: None
    return program(module, (SQUARE,), SQUARE, change=change)


bf16 = functools.partial(torch.autocast, "cpu", dtype=torch.bfloat16)

BOTH_WRONG = {
    "a branch on the rank": lambda: program(by_rank, (SQUARE,), torch.randn(3, 3, 1)),
    "a branch on the dtype": lambda: program(by_dtype, (SQUARE,), SQUARE.double()),
    "a branch on a result's dtype": lambda: program(by_dtype_of_result, (SQUARE,), SQUARE.double()),
    "a size that is computed with": lambda: program(mean, (SQUARE,), torch.randn(5, 3)),
    "one tensor, then two": lambda: program(add, aliased(), torch.ones(3), torch.zeros(3)),
    "tied weights, untied": lambda: tied(untie=True),
}
ONLY_GENERATED_WRONG = {
    "another dtype": lambda: program(smooth, (SQUARE,), SQUARE.double()),
    "another size": lambda: program(smooth, (SQUARE,), torch.randn(5, 3)),
    "other strides": lambda: Program(smooth, (SQUARE,), lambda: (SQUARE.t(),)),
    "a gradient that was not traced": lambda: Program(
        smooth, (SQUARE,), lambda: (torch.randn(3, 3, requires_grad=True),)
    ),
    "two tensors, then one that is written to": lambda: Program(
        accumulate, (torch.ones(3), torch.ones(3)), aliased
    ),
    "inference mode after a compile for training": lambda: linear(inside=torch.inference_mode),
    "autocast of a matmul": lambda: linear(inside=bf16),
    "another default dtype for a tensor that is made": lambda: program(
        lambda x: x * torch.ones(3), (torch.ones(3),), torch.ones(3),
        inside=functools.partial(default_dtype, torch.float64),
    ),
    "sizes that were equal": lambda: program(
        two_means, (SQUARE, SQUARE.clone()), SQUARE, torch.randn(4, 3), dynamic=True
    ),
}  # fmt: skip
BOTH_HARMLESS = {
    "a parameter as an input": lambda: Program(
        smooth, (SQUARE,), lambda: (nn.Parameter(SQUARE.clone(), requires_grad=False),)
    ),
    "a gradient under no_grad": lambda: Program(
        smooth, (SQUARE,), lambda: (torch.randn(3, 3, requires_grad=True),), inside=torch.no_grad
    ),
    "no_grad after a compile for training": lambda: linear(inside=torch.no_grad),
    "inference mode": lambda: program(smooth, (SQUARE,), SQUARE, inside=torch.inference_mode),
    "a parameter frozen": lambda: linear(lambda m: m.weight.requires_grad_(False)),
    "autocast of what it does not cast": lambda: program(smooth, (SQUARE,), SQUARE, inside=bf16),
    "another default dtype": lambda: program(
        smooth, (SQUARE,), SQUARE, inside=functools.partial(default_dtype, torch.float64)
    ),
    "the stride of a dimension of one": lambda: Program(
        smooth, (torch.randn(1, 3),), lambda: (torch.arange(3.0)[None].as_strided((1, 3), (1, 1)),)
    ),
    "two tensors, then one that is only read": lambda: Program(add, (torch.ones(3), torch.ones(3)), aliased),
    "tied weights": lambda: tied(untie=False),
    "threads": lambda: program(smooth, (SQUARE,), SQUARE, change=_other_threads),
    "tf32": lambda: program(smooth, (SQUARE,), SQUARE, change=_tf32),
}


def _other_threads():
    torch.set_num_threads(2 if torch.get_num_threads() == 1 else 1)


def _tf32():
    matmul = torch.backends.cuda.matmul
    matmul.allow_tf32 = not matmul.allow_tf32


@pytest.mark.parametrize("name", BOTH_WRONG)
def test_what_python_saw_is_wrong_everywhere(record_here, name):
    outcome = play(BOTH_WRONG[name](), record_here())
    assert outcome.effect == "differs"
    (finding,) = outcome.alarms
    assert (finding.severity, finding.data["violations"]) == ("error", 1)


@pytest.mark.parametrize("name", ONLY_GENERATED_WRONG)
def test_ops_that_are_called_one_by_one_take_what_comes(record_here, name):
    outcome = play(ONLY_GENERATED_WRONG[name](), record_here())
    if name != "sizes that were equal":  # the graph has one symbol for both, whatever runs it
        assert (outcome.effect, outcome.alarms) == ("same", [])
    else:
        assert (outcome.effect, len(outcome.alarms)) == ("differs", 1)


@pytest.mark.parametrize("name", ONLY_GENERATED_WRONG)
def test_generated_code_relies_on_what_it_was_made_for(record_here, name):
    outcome = play(ONLY_GENERATED_WRONG[name](), record_here(), "inductor")
    assert outcome.effect == "differs"
    (finding,) = outcome.alarms
    assert (finding.severity, finding.data["effect"], finding.data["violations"]) == ("error", "differs", 1)


@pytest.mark.parametrize("name", BOTH_HARMLESS)
@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_what_changes_no_result_raises_no_alarm(record_here, name, backend):
    outcome = play(BOTH_HARMLESS[name](), record_here(), backend)
    assert (outcome.effect, outcome.alarms) == ("same", [])


@pytest.mark.parametrize(
    ("case", "kind"),
    [
        ("a branch on the rank", "shape"),
        ("a branch on the dtype", "type"),
        ("one tensor, then two", "identity"),
    ],
)
def test_the_kind_is_what_changed_and_the_line_is_what_read_it(record_here, case, kind):
    program = BOTH_WRONG[case]()
    (finding,) = play(program, record_here()).alarms
    assert finding.data["kind"] == kind
    first = program.target.__code__.co_firstlineno
    assert finding.where.line == first + (2 if kind != "identity" else 1)


def test_inputs_that_changed_together_are_one_cause(record_here):
    """A static batch of 3, then one of 5: both inputs follow from it."""
    program_ = program(two_means, (SQUARE, torch.randn(3)), torch.randn(5, 3), torch.randn(5))
    (finding,) = play(program_, record_here(), "inductor").alarms
    assert (finding.data["kind"], finding.data["guards"]) == ("shape", 2)


def test_two_independent_changes_of_tensors_are_two_causes(record_here):
    program_ = program(
        lambda x, y: smooth(x) + smooth(y).sum(),
        (SQUARE, torch.randn(4)),
        torch.randn(5, 3).double(),
        torch.randn(4),
    )
    kinds = sorted(finding.data["kind"] for finding in play(program_, record_here(), "inductor").alarms)
    assert kinds == ["shape", "type"]


def test_weights_of_another_dtype_are_one_cause(record_here):
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 3))
    program_ = program(model, (SQUARE,), SQUARE.double(), change=model.double)
    (finding,) = play(program_, record_here(), "inductor").alarms
    assert (finding.data["kind"], finding.data["guards"]) == ("type", 7)
