"""Which pieces of a split graph are equal, and which constant keeps others from being so."""

from __future__ import annotations

import operator

import pytest

torch = pytest.importorskip("torch")

from compdbg.events import Boundary  # noqa: E402
from compdbg.hooks import piece_structure as structure  # noqa: E402

pytestmark = pytest.mark.torch


def piece(names=("x", "w"), *, scale=2.0, width=4, function=torch.mul, dtype=torch.float32):
    """`relu(linear(function(x, scale), w))` over a batch of 3; its nodes named after the inputs."""
    graph = torch.fx.Graph()
    x, w = (graph.placeholder(name) for name in names)
    x.meta["example_value"] = torch.empty(3, width, dtype=dtype)
    w.meta["example_value"] = torch.empty(width, width, dtype=dtype)
    scaled = graph.call_function(function, (x, scale))
    out = graph.call_function(torch.nn.functional.linear, (scaled, w))
    out = graph.call_method("relu", (out,))
    out.meta["example_value"] = torch.empty(3, width, dtype=dtype)
    graph.output((out,))
    return torch.fx.GraphModule(torch.nn.Module(), graph)


def named(**pieces):
    return [structure.Piece(name, structure.structure_of(module)) for name, module in pieces.items()]


class TestTwins:
    def test_names_make_no_difference(self):
        earlier = named(first=piece(("x", "w")))
        assert structure.twin_of(structure.structure_of(piece(("y_1", "weight_7"))), earlier) == "first"

    @pytest.mark.parametrize(
        "other",
        [
            {"scale": 3.0},
            {"scale": 2},
            {"width": 5},
            {"function": torch.add},
            {"function": operator.mul},
            {"dtype": torch.float16},
        ],
        ids=["scale", "scale type", "width", "callee", "operator", "dtype"],
    )
    def test_everything_else_does(self, other):
        assert structure.twin_of(structure.structure_of(piece(**other)), named(first=piece())) is None

    def test_the_first_equal_one_is_named(self):
        earlier = named(a=piece(scale=1.0), b=piece(), c=piece())
        assert structure.twin_of(structure.structure_of(piece()), earlier) == "b"


class TestDifference:
    def test_names_the_constant_and_both_its_values(self):
        found = structure.difference(structure.structure_of(piece(scale=3.0)), named(first=piece()))
        assert found == "argument 1 of mul is 3.0, and 2.0 in first"

    def test_a_piece_of_another_shape_is_no_near_twin(self):
        assert structure.difference(structure.structure_of(piece(width=5)), named(first=piece())) is None

    def test_an_int_is_not_the_same_kind_of_constant_as_a_float(self):
        assert structure.difference(structure.structure_of(piece(scale=3)), named(first=piece())) is None

    def test_many_constants_are_counted_not_listed(self):
        def sliced(values):
            graph = torch.fx.Graph()
            x = graph.placeholder("x")
            graph.output(graph.call_method("view", (x, *values)))
            return torch.fx.GraphModule(torch.nn.Module(), graph)

        found = structure.difference(
            structure.structure_of(sliced([1, 2, 3, 4, 5])), named(first=sliced([9, 9, 9, 9, 9]))
        )
        assert found is not None
        assert found.startswith("argument 1 of view is 1, and 9; ")
        assert found.endswith(" (and 2 more constants) in first")


class TestBorders:
    def test_inputs_are_the_placeholders_with_their_types(self):
        assert structure.inputs_of(piece()) == [
            Boundary(name="x", shape=["3", "4"], dtype="float32"),
            Boundary(name="w", shape=["4", "4"], dtype="float32"),
        ]

    def test_outputs_are_what_is_returned(self):
        assert structure.outputs_of(piece()) == [Boundary(name="relu", shape=["3", "4"], dtype="float32")]

    def test_a_size_that_crosses_is_no_tensor(self):
        assert structure.boundary("size", torch.Size([2])) == Boundary(name="size", type="Size")

    def test_a_constant_output_is_named_by_its_value(self):
        graph = torch.fx.Graph()
        graph.placeholder("x")
        graph.output((7,))
        module = torch.fx.GraphModule(torch.nn.Module(), graph)
        assert structure.outputs_of(module) == [Boundary(name="7", type="int")]


class TestOps:
    def test_getitem_counts_as_an_op_and_inputs_do_not(self):
        found = structure.structure_of(piece())
        assert found.ops == 3
        assert found.op_names == ("mul", "linear", "relu")

    def test_an_overload_and_its_packet_go_by_one_name(self):
        assert structure.op_name(torch.ops.aten.add.Tensor) == "aten::add"
        assert structure.op_name(torch.ops.aten.add) == "aten::add"
