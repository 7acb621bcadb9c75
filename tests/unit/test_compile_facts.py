"""What a compile depends on stays with it while a backend works outside torch's context."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from torch._guards import CompileContext, CompileId, compile_context

from compdbg.hooks import compile_facts
from compdbg.hooks.current import compiling_for


def test_facts_outlive_work_outside_the_context():
    with compile_context(CompileContext(CompileId(frame_id=7, frame_compile_id=0))):
        facts = compile_facts.here()
        assert facts is not None
        with compile_context(None), compiling_for("7/0"):
            assert compile_facts.here() is facts
        assert compile_facts.here() is facts
        assert compile_facts.take("7/0") is facts


def test_another_compile_has_facts_of_its_own():
    with compile_context(CompileContext(CompileId(frame_id=7, frame_compile_id=0))):
        facts = compile_facts.here()
    with compile_context(CompileContext(CompileId(frame_id=7, frame_compile_id=0))):
        assert compile_facts.here() is not facts, "after a reset ids are given again"
    assert compile_facts.here() is None
