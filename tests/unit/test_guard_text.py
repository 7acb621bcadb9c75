"""Guards as a person reads them."""

from __future__ import annotations

import pytest

from compdbg.views.guard_text import in_python


@pytest.mark.parametrize(
    ("guard", "text"),
    [
        ("9 <= L['x'].size()[0]", "9 <= x.shape[0]"),
        ("L['self']._modules['norm'].eps == 1e-06", "self.norm.eps == 1e-06"),
        (
            "check_tensor(L['x'], Tensor, DispatchKeySet(CPU, ADInplaceOrView), torch.float32, device=None, "
            "requires_grad=True, size=[None, 64], stride=[64, 1])",
            "x.dtype == torch.float32 and x.shape == (*, 64) and x.requires_grad",
        ),
        (
            "___check_type_id(G['__import_torch_dot_nn_dot_modules_dot_module']._global_forward_hooks, 94), "
            "type=<class 'collections.OrderedDict'>",
            "type(torch.nn.modules.module._global_forward_hooks) is collections.OrderedDict",
        ),
        ("grad mode (checked by ___check_global_state())", "grad mode is as it was"),
    ],
)
def test_a_guard_is_a_condition_in_the_names_of_the_user(guard: str, text: str) -> None:
    assert in_python(guard) == text


def test_a_megabyte_stands_as_it_is():
    text = "check_tensor(" * 80_000
    assert in_python(text) == text
