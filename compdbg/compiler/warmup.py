"""`warm_up`: compile and capture all sizes ahead of the first request, with a progress bar."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from compdbg.compiler.captures import many_captures
from compdbg.compiler.config import CompilationConfig, CUDAGraphMode
from compdbg.compiler.effective import resolve
from compdbg.compiler.forward_context import set_forward_context, warming_up

Inputs = Callable[[int], Any]
Metadata = Callable[[int, bool], Any]


def warm_up(
    model: Callable[..., Any],
    inputs: Inputs,
    *,
    sizes: Iterable[int] | None = None,
    attn_metadata: Metadata | None = None,
) -> None:
    """Call `model` once at every size to be compiled, and twice for each capture of a size.

    `inputs(n)` gives the arguments of a call with n rows: a tuple, a mapping of keywords, or one
    tensor. `attn_metadata(n, uniform_decode)` gives what `set_forward_context` is to be set to.
    Without `sizes`, those of the model's configuration are taken. The calls are not counted as
    the program's own.

    Raises:
        TypeError: `model` is not decorated with `support_torch_compile`.
    """
    config = _config(model)
    captured = set(config.cudagraph_capture_sizes or ())
    compiled = {size for size in config.compile_sizes or () if isinstance(size, int)}
    wanted = set(sizes) if sizes is not None else captured | compiled
    steps = [
        (size, uniform)
        for size in sorted(wanted, reverse=True)
        for uniform in _batches(config, size, attn_metadata)
    ]
    with _progress(len(steps)) as advance, many_captures(), warming_up() as warming:
        for size, uniform in steps:
            for capture in _calls(config, size in captured, uniform):
                warming.capture = capture
                _call(model, inputs(size), attn_metadata, size, uniform)
            advance(size)


def _batches(config: CompilationConfig, size: int, metadata: Metadata | None) -> list[bool]:
    """The kinds of batch that are captured apart: mixed ones, and uniform decode.

    Captures of the whole graph are made for one of both, as attention may read which it is; who has no
    metadata has one kind.
    """
    mode = config.cudagraph_mode
    apart = mode.decode_mode() is not mode.mixed_mode()
    apart = apart or (mode is CUDAGraphMode.FULL and metadata is not None)
    return [False, True] if apart and size in (config.cudagraph_capture_sizes or ()) else [False]


def _calls(config: CompilationConfig, captured: bool, uniform: bool) -> list[bool]:
    """For each call of one size: whether it is captured."""
    mode = config.cudagraph_mode
    mode = mode.decode_mode() if uniform else mode.mixed_mode()
    if mode is CUDAGraphMode.NONE or not captured:
        return [False]
    return [False] * max(1, config.cudagraph_num_of_warmups) + [True]


def _call(model: Callable[..., Any], given: Any, metadata: Metadata | None, size: int, uniform: bool) -> None:
    with set_forward_context(None if metadata is None else metadata(size, uniform), uniform_decode=uniform):
        if isinstance(given, Mapping):
            model(**given)
        elif isinstance(given, Sequence):
            model(*given)
        else:
            model(given)


def _config(model: Any) -> CompilationConfig:
    config = getattr(model, "_compdbg_config", None)
    if not isinstance(config, CompilationConfig):
        raise TypeError(
            f"warm_up takes a model decorated with support_torch_compile, not {type(model).__name__}"
        )
    return resolve(config).config


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int], None]]:
    """A line on stderr that grows, if a person may be watching."""
    if total == 0 or not sys.stderr.isatty():
        yield lambda size: None
        return
    done = 0

    def advance(size: int) -> None:
        nonlocal done
        done += 1
        bar = "#" * (30 * done // total)
        sys.stderr.write(f"\rcapturing [{bar:<30}] {done}/{total}, size {size:<6}")
        sys.stderr.flush()

    try:
        yield advance
    finally:
        sys.stderr.write("\n")
        sys.stderr.flush()
