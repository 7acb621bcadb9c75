"""Where torch stores an entry: remembered when it worked, and said when it can't be written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from compdbg import probe
from compdbg.events import CacheProblem
from compdbg.hooks.base import Patches, Target, contained
from compdbg.hooks.cachekeys import redacted
from compdbg.hooks.cachelookups import remember_stored

WRITE_FX = Target("torch._inductor.codecache:FxGraphCache._write_to_local_cache", ("key", "content"))
WRITE_AOT = Target(
    "torch._functorch._aot_autograd.autograd_cache:AOTAutogradCache._write_to_local_cache", ("key", "content")
)


def watch_writes(patches: Patches, write: Target, layer: str) -> None:
    """Keep each key that is stored; say why one could not be (torch itself goes on with a log line)."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def write_to_local_cache(key: str, *args: Any, **kwargs: Any) -> Any:
            try:
                result = original(key, *args, **kwargs)
            except OSError as error:
                with contained("caches"):
                    _record(layer, error)
                raise
            if probe.active():
                with contained("caches"):
                    remember_stored(layer, key)
            return result

        return write_to_local_cache

    patches.wrap(write, make)


def _record(layer: str, error: OSError) -> None:
    path = str(error.filename or "")
    reason = error.strerror or type(error).__name__
    probe.emit(
        CacheProblem(layer=layer, reason=f"an entry could not be written: {reason}", path=redacted(path))
    )
