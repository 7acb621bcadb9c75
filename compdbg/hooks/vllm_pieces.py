"""vLLM's piecewise compilation: each piece for each range of sizes, compiled, loaded or shared."""

from __future__ import annotations

import inspect
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from compdbg import probe
from compdbg.events import CacheLookup, PieceCompiled
from compdbg.hooks import current, vllm_aot
from compdbg.hooks.base import Patches, contained
from compdbg.hooks.vllm_targets import COMPILE, LOAD, PIECE_RANGES

HOOK = "vllm"

_here = threading.local()


def install_manager(patches: Patches) -> None:
    patches.wrap(COMPILE, _recorded_compile)
    patches.wrap(LOAD, _recorded_load)


def install_backend(patches: Patches) -> None:
    patches.wrap(PIECE_RANGES, _named_piece)


def range_text(compile_range: Any) -> str:
    """`1-2048`, or `4` for a single size."""
    start, end = compile_range.start, compile_range.end
    return str(start) if start == end else f"{start}-{end}"


def _named_piece(original: Callable[..., Any]) -> Callable[..., Any]:
    """The manager knows a piece only by a number; the backend that asks it knows the name."""

    def compile_all_ranges(self: Any, *args: Any, **kwargs: Any) -> Any:
        outer = getattr(_here, "piece", None)
        _here.piece = str(self.submod_name or f"piece {self.piecewise_compile_index}")
        try:
            return original(self, *args, **kwargs)
        finally:
            _here.piece = outer

    return compile_all_ranges


class _Request:
    """One piece for one range, on its way through the compiler manager."""

    def __init__(self, manager: Any, piece: str, sizes: str, index: int) -> None:
        self.manager = manager
        self.graph = current.graph_name()
        self.piece = piece
        self.sizes = sizes
        self.key = f"{sizes} #{index} {manager.compiler.name}"
        self.known = {id(artifact) for artifact in manager.loaded_artifacts.values()}
        self.loaded = False
        self.started = time.perf_counter()

    @property
    def name(self) -> str:
        """What passes and matches call the graph that is being compiled."""
        return f"{self.graph} {self.piece} {self.sizes}"

    @property
    def elapsed_ms(self) -> float:
        return (time.perf_counter() - self.started) * 1e3

    def finish(self, artifact: Any) -> None:
        twin = not self.loaded and id(artifact) in self.known
        if twin:
            probe.emit(
                CacheLookup(
                    layer="twin",
                    result="hit",
                    graph=self.name,
                    range=self.sizes,
                    key=self._key_of(artifact),
                    compile_id=current.compile_id(),
                    reason="an equal piece was compiled before in this process",
                    duration_ms=self.elapsed_ms,
                )
            )
        probe.emit(
            PieceCompiled(
                graph=self.graph,
                piece=self.piece,
                range=self.sizes,
                duration_ms=self.elapsed_ms,
                reused=self.loaded or twin,
                backend=self.manager.compiler.name,
            )
        )
        if not twin:
            vllm_aot.note_work(self.name, f"{self.piece} {self.sizes}")

    def _key_of(self, artifact: Any) -> str | None:
        artifacts = self.manager.loaded_artifacts.items()
        return next((str(key) for key, value in artifacts if value is artifact), None)


def _recorded_compile(original: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(original)

    def compile(self: Any, *args: Any, **kwargs: Any) -> Any:
        request = None
        if probe.active():
            with contained(HOOK):
                request = _request(self, signature.bind(self, *args, **kwargs).arguments)
        if request is None:
            return original(self, *args, **kwargs)
        with current.compiling_graph(request.name), _underway(request):
            artifact = original(self, *args, **kwargs)
        with contained(HOOK):
            request.finish(artifact)
        return artifact

    return compile


def _request(manager: Any, arguments: dict[str, Any]) -> _Request:
    index = int(arguments.get("graph_index", 0))
    piece = getattr(_here, "piece", None) or f"piece {index}"
    return _Request(manager, piece, range_text(arguments["compile_range"]), index)


@contextmanager
def _underway(request: _Request) -> Iterator[None]:
    outer = getattr(_here, "request", None)
    _here.request = request
    try:
        yield
    finally:
        _here.request = outer


def _recorded_load(original: Callable[..., Any]) -> Callable[..., Any]:
    def load(self: Any, *args: Any, **kwargs: Any) -> Any:
        started = time.perf_counter()
        artifact = original(self, *args, **kwargs)
        request: _Request | None = getattr(_here, "request", None)
        if request is not None:
            with contained(HOOK):
                _record_load(request, artifact, (time.perf_counter() - started) * 1e3)
        return artifact

    return load


def _record_load(request: _Request, artifact: Any, duration_ms: float) -> None:
    """A look into the piece-by-piece cache on disk, where this configuration has one."""
    request.loaded = artifact is not None
    if artifact is None and not _kept_by_piece(request.manager):
        return
    probe.emit(
        CacheLookup(
            layer="vllm",
            result="miss" if artifact is None else "hit",
            key=request.key,
            graph=request.name,
            range=request.sizes,
            compile_id=current.compile_id(),
            reason="" if artifact is not None else f"no entry in {request.manager.cache_file_path}",
            duration_ms=duration_ms,
        )
    )


def _kept_by_piece(manager: Any) -> bool:
    """Pieces have entries of their own, unless the cache is off, the backend makes nothing to keep,
    or all pieces are kept together in the AOT artifact.
    """
    if manager.disable_cache or not manager.use_aot_compile or manager.compiler.name == "eager":
        return False
    from vllm import envs

    return not envs.VLLM_USE_MEGA_AOT_ARTIFACT
