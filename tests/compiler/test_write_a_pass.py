"""docs/write-a-pass.md works as written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from compdbg.compiler.passes.fusion.proof import prove
from tests.compiler.test_passes import traced

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")]
PAGE = Path(__file__).parents[2] / "docs" / "write-a-pass.md"


def test_the_page_works_as_written(capsys):
    namespace: dict = {}
    for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(compile(code, str(PAGE), "exec"), namespace)
    assert capsys.readouterr().out == "[]\n"
    fusion = namespace["FuseSinRound"]()
    module = traced(lambda x: x.sin().round() + 1, torch.randn(3))
    fusion(module.graph)
    assert fusion.matched_count == 1
    shifted = namespace["FuseShiftedSinRound"]()
    assert prove(shifted).problems == []
    module = traced(lambda x: (x + 0.25).sin().round() * (x + 3).sin().round(), torch.randn(3))
    shifted(module.graph)
    assert shifted.matched_count == 2
