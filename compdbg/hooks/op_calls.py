"""The calls of a custom operator: which are checked, and what is told of them."""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from compdbg import probe
from compdbg.events import OpsChecked, OpWrong, Where
from compdbg.hooks import op_checks as checks
from compdbg.hooks.base import contained, report_error
from compdbg.hooks.current import compile_id
from compdbg.hooks.userline import is_torch_file, of_caller, of_code

NAME = "ops"
CALLS = frozenset({1, 2, 16, 256, 4096, 65536})
"""Calls of an op that are checked, besides the first with inputs of another kind."""
SIGNATURES = 32

_here = threading.local()


class Watched:
    """One operator: how often it was called, with inputs of which kinds, and what was told of it."""

    def __init__(self, name: str, kernel: Any) -> None:
        self.name = name
        self.kernel = kernel
        self.calls = self.checked = self.faked = 0
        self.signatures: set[Any] = set()
        self.fake_signatures: set[Any] = set()
        self.told: set[tuple[str, str]] = set()

    def due(self, args: tuple[Any, ...]) -> Any:
        """What this call's inputs are like, if the call is to be checked."""
        if getattr(_here, "checking", False):
            return None
        self.calls += 1
        if not probe.active():
            return None
        signature = tuple(map(_signature, args))
        if signature not in self.signatures and len(self.signatures) < SIGNATURES:
            self.signatures.add(signature)
            return signature
        return signature if self.calls in CALLS or self.can_fake(signature) else None

    def can_fake(self, signature: Any) -> bool:
        """Fakes come with Dynamo: those of calls before it are run at the first like call after it."""
        room = len(self.fake_signatures) < SIGNATURES
        return room and signature not in self.fake_signatures and checks.has_fakes()


_watched: dict[str, Watched] = {}


def _signature(value: Any) -> Any:
    """Shape and strides of a tensor, a number for itself."""
    if hasattr(value, "stride"):
        return (tuple(value.shape), value.dtype)
    return (
        len(value) if isinstance(value, (list, tuple)) else value if isinstance(value, (int, bool)) else None
    )


def checking(name: str, kernel: Any) -> Callable[..., Any]:
    """`kernel`, with some of its calls checked."""
    watched = _watched.setdefault(name, Watched(name, kernel))

    def call(*args: Any, **kwargs: Any) -> Any:
        call = None
        try:
            if (signature := watched.due(args)) is not None and not _capturing():
                call = _Call(watched, signature, args, kwargs)
        except Exception as error:
            report_error(NAME, error)
        result = kernel(*args, **kwargs)
        if call is not None:
            with contained(NAME):
                call.finish(result)
        return result

    functools.update_wrapper(call, kernel)
    unseen = sys.modules["torch"]._disable_dynamo(call)
    unseen.watched_kernel = kernel
    return unseen  # type: ignore[no-any-return]


def _capturing() -> bool:
    """Comparing synchronises, which no CUDA graph survives."""
    cuda = sys.modules["torch"].cuda
    return bool(cuda.is_initialized() and cuda.is_current_stream_capturing())


class _Call:
    """One call under check: what was before it, and what is found after it."""

    def __init__(self, watched: Watched, signature: Any, args: Any, kwargs: Any) -> None:
        self.watched = watched
        self.op = sys.modules["torch._library.utils"].lookup_op(watched.name)
        self.schema = self.op._schema
        self.arguments = checks.arguments_of(self.schema, args, kwargs)
        self.before: dict[str, checks.Kept] = {}
        self.fake: Any = None
        if self.arguments is None:
            return
        watched.checked += 1
        with _alone():
            self.before = checks.keep(self.arguments)
            if watched.can_fake(signature):
                watched.fake_signatures.add(signature)
                self.fake = checks.run_fake(self.op, args, kwargs)
        watched.faked += self.fake is not None

    def finish(self, result: Any) -> None:
        if self.arguments is None:
            return
        with _alone():
            found = list(checks.writes(self.arguments, self.before))
            aliased = list(checks.aliases(self.schema, self.arguments, result))
            if self.fake is not None and not aliased:
                found += checks.fake_differs(self.schema, self.arguments, result, self.fake)
        for wrong in (*found, *aliased):
            self._tell(wrong)

    def _tell(self, wrong: checks.Wrong) -> None:
        watched = self.watched
        if (wrong.fault, wrong.subject) in watched.told:
            return
        watched.told.add((wrong.fault, wrong.subject))
        event = OpWrong(
            op=watched.name,
            fault=wrong.fault,  # type: ignore[arg-type]
            subject=wrong.subject,
            declared=wrong.declared,
            seen=wrong.seen,
            call=watched.calls,
            schema=str(self.schema),
            inputs=checks.described(self.arguments or []),
            kernel=place_of(watched.kernel),
            fake=_fake_place(watched.name),
            where=of_caller(4),
            compile_id=compile_id(),
        )
        probe.emit(event)


class _alone:  # reads as the statement that it is
    """Our own operators and calls of the op's fake are neither checked nor seen by the program."""

    def __enter__(self) -> None:
        _here.checking = True
        self._apart = checks.apart()
        self._apart.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._apart.__exit__(*error)
        _here.checking = False


@contextlib.contextmanager
def uncounted() -> Iterator[None]:
    """Calls that we make for a comparison are none of the program's."""
    before = getattr(_here, "checking", False)
    _here.checking = True
    try:
        yield
    finally:
        _here.checking = before


def place_of(function: Any) -> Where | None:
    """Where a kernel is defined; torch's wrapper of it closes over it as `fn`."""
    for _ in range(4):
        inner = getattr(function, "__wrapped__", None)
        code = getattr(function, "__code__", None)
        if inner is None and code is not None and is_torch_file(code.co_filename):
            names = dict(zip(code.co_freevars, function.__closure__ or (), strict=False))
            inner = names["fn"].cell_contents if "fn" in names else None
        if inner is None:
            return of_code(code) if code is not None and not is_torch_file(code.co_filename) else None
        function = inner
    return None


def _fake_place(name: str) -> Where | None:
    definition = sys.modules["torch._library.custom_ops"].OPDEFS.get(name)
    if definition is not None:
        return place_of(definition._abstract_fn)
    kernel = sys.modules["torch._library.simple_registry"].singleton.find(name).fake_impl.kernel
    return place_of(getattr(kernel, "func", None))


def _tally() -> None:
    called = {name: w for name, w in _watched.items() if w.calls}
    if called:
        event = OpsChecked(
            calls={name: w.calls for name, w in called.items()},
            checked={name: w.checked for name, w in called.items()},
            faked={name: w.faked for name, w in called.items()},
        )
        probe.emit(event)
    forget()


def forget() -> None:
    """Count and tell anew: another recording has seen nothing of this one."""
    for watched in _watched.values():
        watched.__init__(watched.name, watched.kernel)  # type: ignore[misc]


probe.at_end(_tally)
probe.at_fork(forget)
