"""Copies found in the text of a graph that came from a cache."""

# ruff: noqa: E501  (torch writes such lines)

from __future__ import annotations

from compdbg.events import Where
from compdbg.model.cached_copies import copies_in

POOL = """class <lambda>(torch.nn.Module):
    def forward(self, arg0_1: "f32[4][1]cpu", arg1_1: "f32[1000, 4][4, 1]cpu", arg2_1: "f32[1000, 4][4, 1]cpu"):
        # File: /home/me/pool.py:10 in step, code: torch.ops.cases.write_kv(x, k, v)
        as_strided_default: "f32[8000][1]cpu" = torch.ops.aten.as_strided.default(arg2_1, [8000], [1], 0)
        clone_default: "f32[8000][1]cpu" = torch.ops.aten.clone.default(as_strided_default);  as_strided_default = None
        as_strided_default_1: "f32[1000, 4][4, 1]cpu" = torch.ops.aten.as_strided.default(clone_default, [1000, 4])
        write_kv_default = torch.ops.cases.write_kv.default(arg0_1, arg1_1, as_strided_default_1);  write_kv_default = None

        # File: /home/me/pool.py:11 in step, code: return x * 2
        mul: "f32[4][1]cpu" = torch.ops.aten.mul.Tensor(arg0_1, 2);  arg0_1 = None

        # File: /home/me/pool.py:10 in step, code: torch.ops.cases.write_kv(x, k, v)
        copy_: "f32[1000, 4][4, 1]cpu" = torch.ops.aten.copy_.default(arg1_1, arg1_1);  arg1_1 = copy_ = None
        copy__1: "f32[1000, 4][4, 1]cpu" = torch.ops.aten.copy_.default(arg2_1, as_strided_default_1);  arg2_1 = None
        return (mul,)
"""


def test_an_input_that_is_copied_for_an_op_and_copied_back() -> None:
    (copy,) = copies_in(POOL)
    assert (copy.op, copy.base, copy.bytes) == ("cases.write_kv", "arg2_1", 32000)
    assert copy.argument == "argument 3"
    assert copy.where == Where("/home/me/pool.py", 10, "step")


def test_the_old_value_is_read_beside() -> None:
    reads = POOL.replace("aten.mul.Tensor(arg0_1, 2)", "aten.mul.Tensor(arg2_1, 2)")
    assert list(copies_in(reads)) == []


def test_a_copy_of_the_programs_own_is_not_copied_back() -> None:
    own = POOL.replace("aten.copy_.default(arg2_1, as_strided_default_1)", "aten.add.Tensor(arg0_1, arg0_1)")
    assert list(copies_in(own)) == []


def test_a_write_in_place() -> None:
    in_place = POOL.replace("as_strided_default_1);  write_kv", "arg2_1);  write_kv")
    assert list(copies_in(in_place)) == []


def test_a_symbolic_size_has_no_bytes() -> None:
    (copy,) = copies_in(POOL.replace('clone_default: "f32[8000][1]cpu"', 'clone_default: "f32[8*s0][1]cpu"'))
    assert copy.bytes == 0


def test_another_text() -> None:
    assert list(copies_in("no graph at all = (")) == []
