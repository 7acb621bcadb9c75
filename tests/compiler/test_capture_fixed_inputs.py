"""The check of every replay: the same objects, addresses and values; what differs is named."""

from __future__ import annotations

import pytest
import torch

from compdbg.compiler.fixed_inputs import FixedInputs

pytestmark = pytest.mark.usefixtures("device")


def arguments(count):
    return [4, *(torch.full((3,), float(i)) for i in range(count))]


def fixed(args):
    names = ["s0", *(f"w{i}" for i in range(len(args) - 1))]
    return FixedInputs(args, range(len(args)), range(1, len(args)), names)


@pytest.mark.parametrize("count", [3, 100])
class TestFixedInputs:
    def test_the_same_arguments_hold(self, count):
        args = arguments(count)
        check = fixed(args)
        assert all(check.hold(list(args)) for _ in range(20))

    def test_a_view_of_the_same_memory_holds(self, count):
        args = arguments(count)
        check = fixed(args)
        again = list(args)
        again[2] = args[2].view(3)
        assert check.hold(again)

    def test_another_tensor_of_equal_values_does_not(self, count):
        args = arguments(count)
        check = fixed(args)
        again = list(args)
        again[2] = args[2].clone()
        assert not check.hold(again)
        assert list(check.moved(again)) == [("w1", args[2].data_ptr(), again[2].data_ptr())]

    def test_memory_swapped_below_all_parameters_is_seen_at_once(self, count):
        args = arguments(count)
        check = fixed(args)
        old = [arg.data for arg in args[1:]]
        for arg in args[1:]:
            arg.data = arg.data.clone()
        assert not check.hold(list(args))
        assert len(old) == count

    def test_memory_swapped_below_one_parameter_is_seen_in_a_few_calls(self, count):
        args = arguments(count)
        check = fixed(args)
        old, args[3].data = args[3].data, args[3].data.clone()
        assert not all(check.hold(list(args)) for _ in range(13))
        assert [name for name, *_ in check.moved(args)] == ["w2"]
        assert old is not None

    def test_a_plain_value_must_be_the_same(self, count):
        args = arguments(count)
        check = fixed(args)
        again = [5, *args[1:]]
        assert not check.hold(again)
        assert list(check.changed(again)) == [("s0", 4, 5)]

    def test_a_tensor_that_is_none_now_does_not_hold(self, count):
        args = arguments(count)
        check = fixed(args)
        again = [*args[:2], None, *args[3:]]
        assert not check.hold(again)
        assert [name for name, *_ in check.moved(again)] == ["w1"]


def test_scalars_are_compared_by_address():
    args = [*(torch.tensor(1.0) for _ in range(50)), *(torch.ones(2) for _ in range(50))]
    check = FixedInputs(args, range(100), range(100))
    again = list(args)
    again[7] = torch.tensor(1.0)
    assert check.hold(args)
    assert not check.hold(again)
