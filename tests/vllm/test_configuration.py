"""What vLLM makes of a configuration, and that it refuses one as without us."""

from __future__ import annotations


def test_a_refusal_reads_as_without_us(engine):
    plain = engine.plain("refused_config.py", cache="refused")
    recorded = engine.recorded("refused_config.py", cache="refused")
    assert plain.returncode == 1
    assert plain.stderr.endswith("RuntimeError: no such platform\n")
    assert recorded.process.returncode == 1
    assert recorded.process.stderr == plain.stderr
