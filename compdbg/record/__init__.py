"""Writing a run: one file a process, one line an event, large texts by content hash.

`compdbg.record()` is a function that users call, and `compdbg.record` is this package: as soon
as any module of it is imported, Python sets the package as the attribute. So it can be called.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path
    from typing import Any

    from compdbg.record.inprocess import Recording


class _Callable(type(sys)):  # type: ignore[misc]
    def __call__(
        self, path: "str | Path | None" = None, **options: "Any"
    ) -> "AbstractContextManager[Recording]":
        from compdbg.record.inprocess import record

        return record(path, **options)


sys.modules[__name__].__class__ = _Callable
