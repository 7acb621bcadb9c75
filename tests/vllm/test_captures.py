"""vLLM's dispatcher and CUDA-graph wrapper: which size is padded to which, captured and replayed."""

from __future__ import annotations

import pytest

from compdbg.events import Capture
from tests.conftest import Recorded


@pytest.fixture(scope="module")
def captured(engine):
    return engine.recorded("capture.py", cache="capture", TOY_CUDAGRAPHS="1")


def test_the_program_is_as_without_us(engine, captured):
    plain = engine.plain("capture.py", cache="capture-plain", TOY_CUDAGRAPHS="1")
    assert captured.process.returncode == 0, captured.process.stderr
    assert captured.process.stdout == plain.stdout


def test_workers_may_be_told_by_a_variable_of_the_engines_own_kind(engine, captured, tmp_path):
    """vLLM itself, asked to be strict, refuses variables that begin with its prefix and are not its own."""
    started = engine.plain(
        "capture.py", cache="capture", TOY_CUDAGRAPHS="1", VLLM_COMPDBG_RUN=str(tmp_path / "run")
    )
    assert started.returncode == 0, started.stderr
    assert started.stdout == captured.process.stdout
    recorded = Recorded(started, tmp_path / "run")
    assert len(recorded.run.pieces) == len(captured.run.pieces)


def test_each_size_with_its_padding_captures_and_replays(engine, captured):
    rows = {r["size"]: r for r in engine.show(captured, "sizes")}
    served = {
        size: (r["padded_to"], r["captured"], r["replays"], r["eager_calls"]) for size, r in rows.items()
    }
    assert served == {
        3: (4, True, 1, 0),
        4: (None, True, 0, 0),
        5: (8, True, 1, 0),
        8: (None, True, 1, 0),
        16: (None, False, 0, 1),
        20: (None, False, 0, 1),
    }


def test_every_compiled_piece_was_captured_at_each_captured_size(engine, captured):
    rows = {r["size"]: r for r in engine.show(captured, "sizes")}
    compiled = [r for r in engine.show(captured, "splits") if r["kind"] == "compiled"]
    assert len(compiled) == 3
    assert rows[4]["captures"] == rows[8]["captures"] == 3
    assert rows[8]["capture_ms"] > 0


def test_sizes_above_the_largest_capture_raise_no_alarm(captured):
    assert captured.alarms == []


class TestRefusedCapture:
    @pytest.fixture(scope="class")
    @classmethod
    def refused(cls, engine):
        return engine.recorded("capture.py", "refuse", cache="capture", TOY_CUDAGRAPHS="1")

    def test_the_traceback_is_as_without_us(self, engine, refused):
        plain = engine.plain("capture.py", "refuse", cache="capture-plain", TOY_CUDAGRAPHS="1")
        assert plain.returncode == 1
        assert refused.process.returncode == 1
        assert refused.process.stderr == plain.stderr

    def test_it_is_recorded_with_size_and_piece(self, refused):
        (failed,) = [event for _, event in refused.run.log.of(Capture) if event.error]
        assert (failed.size, failed.piece) == (4, "submod_0")
        assert failed.error == "RuntimeError: operation not permitted when stream is capturing"
        assert failed.where.function == "capturing"
