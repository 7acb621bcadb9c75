"""Programs whose guards are dropped, recorded in this process and compared with eager call by call."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from compdbg.events import GuardViolation, HookError
from compdbg.findings.base import Finding
from compdbg.findings.collect import find_all
from compdbg.model.run import Run


def drop_all(guards: list[Any]) -> list[bool]:
    return [False] * len(guards)


def compiled(target: Any, backend: str = "eager", **options: Any) -> Any:
    """`torch.compile` with every guard dropped."""
    return torch.compile(
        target, backend=backend, fullgraph=True, options={"guard_filter_fn": drop_all}, **options
    )


@dataclass
class Program:
    """What is compiled, its first call, and what the second call does otherwise."""

    target: Any
    first: tuple[Any, ...]
    later: Callable[[], tuple[Any, ...]]
    """The arguments of the second call, made anew each time: programs may write to them."""
    change: Callable[[], Any] = lambda: None
    """What happens between the calls."""
    inside: Callable[[], Any] = contextlib.nullcontext
    """A context that the second call is made in."""
    keywords: dict[str, Any] = field(default_factory=dict)
    dynamic: bool | None = None


@dataclass
class Outcome:
    """The second call, compiled and eager, and what was recorded of it."""

    compiled: Any
    eager: Any
    run: Run

    @property
    def effect(self) -> str:
        """Whether the compiled call really differed from eager: values, shape, dtype, gradient, failure."""
        results = (self.compiled, self.eager)
        failed = [isinstance(result, Exception) for result in results]
        if any(failed):
            return "same" if all(failed) else "differs"
        a, b = results
        alike = a.shape == b.shape and a.dtype == b.dtype and a.requires_grad >= b.requires_grad
        return "same" if alike and torch.allclose(a, b, equal_nan=True) else "differs"

    @property
    def alarms(self) -> list[Finding]:
        return found_in(self.run)


def play(program: Program, recording: Any, backend: str = "eager") -> Outcome:
    """Record the first call and the changed second one; compare the second with eager."""
    with recording as recorded:
        function = compiled(program.target, backend, dynamic=program.dynamic)
        function(*program.first)
        program.change()
        with program.inside():
            results = [_result(call, program) for call in (function, program.target)]
    run = recorded.load()
    assert [event.error for _, event in run.log.of(HookError)] == []
    return Outcome(*results, run)


def _result(call: Any, program: Program) -> Any:
    torch.manual_seed(0)
    args = program.later()
    try:
        return call(*args, **program.keywords)
    except Exception as error:
        return error


def violations(run: Run) -> list[GuardViolation]:
    return [event for _, event in run.log.of(GuardViolation)]


def same_each_time(*values: Any) -> Callable[[], tuple[Any, ...]]:
    return lambda: tuple(v.detach().clone() if type(v) is torch.Tensor else v for v in values)


@contextlib.contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def alarms_of(run: Run) -> list[Finding]:
    """All errors and warnings of a run."""
    return [f for f in find_all(run) if f.severity != "info"]


def found_in(run: Run) -> list[Finding]:
    """The errors and warnings about dropped guards."""
    return [f for f in alarms_of(run) if f.code == "guard-dropped-violated"]
