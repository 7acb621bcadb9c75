"""What of a file belongs to a name in it: the statements that may give it its value, and no others."""

from __future__ import annotations

import os

import pytest

from compdbg.compiler.module_text import deciding_statements

PROGRAM = """
import torch
from helpers import register

FACTOR = 2.0
known = ["a"]
known.append("b")
table = {}
aliases = known

@register(table)
def add(x):
    return x + 1

def helper(x):
    return len(aliases) + x

if torch.cuda.is_available():
    limit = 4
else:
    limit = 8

class Pass:
    def __call__(self, graph):
        return helper(graph), table, limit

library = torch.library.Library("mine", "DEF")
library.define("op(Tensor x) -> Tensor")

class Model:
    def forward(self, x):
        return x * FACTOR

config = dict(passes=[Pass()], sizes=[1])
with torch.no_grad():
    model = Model()
    for n in (1, 2):
        print(model, config, n)
"""


def of_pass(path, text):
    path.write_text(text)
    os.utime(path, ns=(0, hash(text) % 10**15))
    return deciding_statements(str(path), {"Pass"})


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("helper(graph), table", "helper(graph)"),
        ('["a"]', '["c"]'),
        ('append("b")', 'append("c")'),
        ("x + 1", "x + 2"),
        ("aliases = known", "aliases = known[:1]"),
        ("limit = 8", "limit = 9"),
        ("torch.cuda.is_available()", "torch.xpu.is_available()"),
        ("from helpers import register", "from others import register"),
    ],
)
def test_what_may_change_a_value_belongs_to_it(tmp_path, old, new):
    before = of_pass(tmp_path / "program.py", PROGRAM)
    assert of_pass(tmp_path / "program.py", PROGRAM.replace(old, new)) != before


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("FACTOR = 2.0", "FACTOR = 3.0"),
        ("x * FACTOR", "x * FACTOR + 1"),
        ("op(Tensor x)", "op(Tensor x, int n=0)"),
        ("sizes=[1]", "sizes=[8]"),
        ("def helper(x):", "# a comment\n\ndef helper(x):"),
        ("for n in (1, 2)", "for n in (1, 2, 3)"),
    ],
)
def test_the_rest_of_the_file_does_not(tmp_path, old, new):
    before = of_pass(tmp_path / "program.py", PROGRAM)
    assert of_pass(tmp_path / "program.py", PROGRAM.replace(old, new)) == before


def test_a_file_that_is_not_there_or_no_python_says_nothing(tmp_path):
    assert deciding_statements("<stdin>", {"Pass"}) == ""
    assert of_pass(tmp_path / "program.py", "class Pass(:") == ""
