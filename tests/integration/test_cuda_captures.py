"""`with torch.cuda.graph(...)` that fails, with a graph in place of a GPU's."""

from __future__ import annotations

import contextlib

import pytest
import torch

from compdbg.findings.collect import find_all

pytestmark = pytest.mark.torch


class Graph:
    def capture_begin(self, *args, **kwargs) -> None:
        pass

    def capture_end(self) -> None:
        pass


@pytest.fixture
def capture(monkeypatch):
    """`torch.cuda.graph` without a GPU."""
    monkeypatch.setattr(torch.cuda, "synchronize", lambda *args: None)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    monkeypatch.setattr(torch._C, "_host_emptyCache", lambda: None, raising=False)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: contextlib.nullcontext())
    return lambda: torch.cuda.graph(Graph(), stream=object())


def refuse(text: str) -> None:
    raise RuntimeError(text)


def findings(record_here, capture, step):
    with record_here() as run, contextlib.suppress(RuntimeError, ValueError), capture():
        step()
    return find_all(run.load())


def test_the_call_that_cuda_refuses_is_named_with_its_line(record_here, capture):
    text = "CUDA error: operation not permitted when stream is capturing (cudaErrorStreamCaptureUnsupported)"
    (finding,) = findings(record_here, capture, lambda: refuse(text))
    assert (finding.code, finding.severity, finding.data["kind"]) == ("capture-failed", "error", "sync")
    assert (finding.where.file, finding.where.function) == (__file__, "refuse")
    assert finding.data["size"] is None
    assert finding.data["stack"][-1].endswith("in refuse")


def test_an_error_of_the_programs_own_is_none_of_the_captures(record_here, capture):
    def step():
        raise ValueError("no such batch")

    assert findings(record_here, capture, step) == []


def test_a_capture_that_succeeds_is_silent(record_here, capture):
    assert findings(record_here, capture, lambda: torch.ones(2) * 2) == []
