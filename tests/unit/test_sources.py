"""torch's names of values, as the user would write them."""

import pytest

from compdbg.model.sources import dimension, shown, size_name


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("L['self']._modules['norm']._parameters['weight']", "self.norm.weight"),
        ("L['self']._modules['layers']._modules['0']._modules['1']", "self.layers[0][1]"),
        ("L['self']._modules['linear1']._modules['0']", "self.linear1[0]"),
        ("L['scale'] == 1.0", "scale == 1.0"),
        ("___stack0 <= -4.75", "___stack0 <= -4.75"),
        ("L['self']._modules['layers']._modules['2'].eps == 0.5", "self.layers[2].eps == 0.5"),
        ("G['__import_torch_dot_nn'].functional", "torch.nn.functional"),
    ],
)
def test_a_source_reads_as_it_would_be_written(source: str, text: str) -> None:
    assert shown(source).replace("G['torch.nn']", "torch.nn") == text


def test_a_size_has_its_tensor_and_dimension() -> None:
    assert size_name("L['x'].size()[0]") == "x.size(0)"
    assert dimension("L['x'].size()[1]") == ("x", 1)
    assert dimension("L['n']") == ("n", None)
