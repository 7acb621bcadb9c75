"""What a stretch of eager code writes to memory that was there before it, so that it can be put back.

Writes are seen as operators declare them, also inside operators whose kernels are in Python: those run
under the same mode, so that one that writes to a cache which it finds by itself is seen too. A kernel in
C++ is believed.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from compdbg.hooks.write_guard import TORCHS, place, written

MOST_BYTES = 256 << 20
_RELOCATES = ("aten::set_", "aten::resize_", "aten::resize_as_")
_here = threading.local()
_journaled: set[str] = set()
"""Operators of `Library.impl` whose kernels run under the journal."""


class Unseen(Exception):
    """Something may be written that can't be put back; the message says what."""


class Journal:
    """Memory as it was before it was written to. `restore` puts it back."""

    def __init__(self) -> None:
        self.kept: dict[int, tuple[Any, Any]] = {}
        """Address -> the storage, and a copy of what it held."""
        self._own: set[int] = set()
        """Memory that was made meanwhile."""
        self._bytes = 0

    def keep(self, tensor: Any) -> None:
        """Remember what a tensor's memory holds.

        Raises:
            Unseen: it is too large, or it can't be told where it is.
        """
        address = place(tensor)
        if not address or address in self.kept or address in self._own:
            return
        storage = tensor.untyped_storage()
        self._bytes += storage.nbytes()
        if self._bytes > MOST_BYTES:
            raise Unseen(f"it writes to more than {MOST_BYTES >> 20} MiB, too much to put back")
        self.kept[address] = (storage, storage.clone())

    def made(self, results: Any, given: set[int]) -> None:
        """Results in memory of their own are nobody else's."""
        for tensor in tensors_in(results):
            address = place(tensor)
            if address not in given and address not in self.kept:
                self._own.add(address)

    def restore(self) -> None:
        for storage, before in self.kept.values():
            storage.copy_(before)


@contextmanager
def journaling(journal: Journal) -> Iterator[None]:
    """What the block writes is kept in `journal` as it was before."""
    mode = _mode(journal)
    outer = getattr(_here, "mode", None)
    with _kernels_too(), mode:
        _here.mode = mode
        try:
            yield
        finally:
            _here.mode = outer


def opaque(names: Iterable[str]) -> list[str]:
    """Those of the operators whose kernels are not seen, and that only say what they write."""
    known = sys.modules["torch._library.custom_ops"].OPDEFS
    return [n for n in names if n not in known and n not in _journaled and n.partition("::")[0] not in TORCHS]


def tensors_in(value: Any) -> Iterator[Any]:
    if isinstance(value, sys.modules["torch"].Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)
    elif isinstance(value, dict):
        yield from tensors_in(list(value.values()))


def _mode(journal: Journal) -> Any:
    modes: Any = sys.modules["torch.utils._python_dispatch"]

    class Journaling(modes.TorchDispatchMode):  # type: ignore[misc]
        supports_higher_order_operators = True

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            schema = getattr(func, "_schema", None)
            if schema is None:
                raise Unseen(f"what {func} writes is not seen")
            if schema.name in _RELOCATES:
                raise Unseen(f"{schema.name} gives a tensor other memory")
            for tensor in tensors_in(list(written(schema, args, kwargs))):
                journal.keep(tensor)
            result = func(*args, **kwargs)
            journal.made(result, {place(tensor) for tensor in tensors_in([*args, kwargs])})
            return result

    return Journaling()


def under_journal(name: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel of `Library.impl` that runs under the journal where one is kept on this thread."""
    _journaled.add(name)

    def call(*args: Any, **kwargs: Any) -> Any:
        mode = getattr(_here, "mode", None)
        if mode is None:
            return kernel(*args, **kwargs)
        with mode:
            return kernel(*args, **kwargs)

    call.__wrapped__ = kernel  # type: ignore[attr-defined]
    return call


@contextmanager
def _kernels_too() -> Iterator[None]:
    """Kernels of `torch.library.custom_op`, which torch looks up at each call, run under the mode too."""
    with ExitStack() as undo:
        for definition in dict(sys.modules["torch._library.custom_ops"].OPDEFS).values():
            for device, kernel in list(definition._backend_fns.items()):
                definition._backend_fns[device] = _within(kernel)
                undo.callback(definition._backend_fns.__setitem__, device, kernel)
        yield


def _within(kernel: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        mode = getattr(_here, "mode", None)  # other threads have none
        if mode is None:
            return kernel(*args, **kwargs)
        with mode:
            return kernel(*args, **kwargs)

    return call
