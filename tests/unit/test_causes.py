"""torch's reasons for a recompile, as they read on 2.13 and 2.14, into causes."""

from __future__ import annotations

import pytest

from compdbg.model.causes import Cause, guard_of, read_reason
from compdbg.model.frames import Reason
from compdbg.model.recompiles import main_cause
from compdbg.model.sources import dimension, shown

HINT = "(HINT: torch.compile considers integer attributes of the nn.Module to be static.)"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (
            "tensor 'x' size mismatch at index 0. expected 4, actual 6",
            Cause("shape", "x", 0, "4", "6"),
        ),
        (
            "tensor 'k' stride mismatch at index 1. expected 356, actual 357",
            Cause("stride", "k", 1, "356", "357"),
        ),
        ("tensor 'x' rank mismatch. expected 1, actual 2", Cause("rank", "x", None, "1", "2")),
        (
            "tensor 'x' dtype mismatch. expected Float, actual Double",
            Cause("dtype", "x", None, "Float", "Double"),
        ),
        (
            "tensor 'self._parameters['weight']' requires_grad mismatch. expected requires_grad=0",
            Cause("requires_grad", "self.weight", None, "requires_grad=0"),
        ),
        ("2 <= x.size()[0] # def f(x): return x+1 # f.py:23 in f", Cause("zero-one", "x", 0)),
        ("x.size()[0] != 7 # if x.shape[0]==7:", Cause("branch", "x", 0, "x.size()[0] != 7")),
        ("k == 2 # def f2(x,k): return x*k", Cause("value", "k", None, "2")),
        ("mode == 'a' # if mode == 'a':", Cause("constant", "mode", None, "'a'")),
        (f"self.seen == 3 # y=x+self.seen {HINT}", Cause("attribute", "self.seen", None, "3")),
        (
            "self._modules['drop'].training == True # F.dropout",
            Cause("training-mode", "training", None, "True"),
        ),
        ("G['SETTINGS']['k'] == 1 # x+SETTINGS['k']", Cause("global", "SETTINGS['k']", None, "1")),
        ("mask is None # if mask is None", Cause("none-or-value", "mask", None, "None")),
        ("len(d) == 2 # x+len(d)", Cause("container", "d", None, "2")),
        ("not d # x+len(d)", Cause("container", "d", None, "0")),
        ("___check_obj_id(fn.__code__, 1396), type=<class 'code'> # fn(x)", Cause("identity", "fn")),
        ("___check_obj_id(self, 1396), type=<class 'C'>", Cause("instance", "self")),
        ("Cache line invalidated because L['fn'].__code__ got deallocated", Cause("identity", "fn")),
        ("___check_type_id(x, 94), type=<class 'C'>", Cause("type", "x")),
        ("GLOBAL_STATE changed: grad_mode", Cause("grad-mode", "grad_mode")),
        ("GLOBAL_STATE changed: autocast(cpu)_enabled", Cause("global-state", "autocast(cpu)_enabled")),
        ("BACKEND_MATCH failure: torch.compile detected different", Cause("backend", "backend")),
        ('Duplicate tensors found: ["a", "b"]', Cause("aliasing", '["a", "b"]')),
        ("something new in torch 3", Cause("other", "something new in torch 3")),
    ],
)
def test_reasons(text: str, cause: Cause) -> None:
    assert read_reason(text) == cause


def test_a_guard_is_shown_without_torchs_remarks() -> None:
    assert guard_of("k == 2 # def f2(x,k) # f.py:29 in f2") == "k == 2"


class TestMainCause:
    """Of several entries that all failed, the one that came nearest says why."""

    @staticmethod
    def cause(*reasons: tuple[str, str], answered: dict | None = None) -> str:
        made = [Reason(text, failed, None, "p:1") for failed, text in reasons]
        return main_cause(made, answered or {})[0].kind

    def test_a_size_is_nearer_than_another_instance(self) -> None:
        assert (
            self.cause(
                ("0/1", "___check_obj_id(self, 12)"),
                ("0/0", "tensor 'x' size mismatch at index 0. expected 4, actual 6"),
            )
            == "shape"
        )

    def test_a_size_that_a_newer_entry_left_open_is_no_cause(self) -> None:
        assert (
            self.cause(
                ("0/1", "self.training == True"),
                ("0/0", "tensor 'x' size mismatch at index 0. expected 4, actual 6"),
                answered={("shape", "x", 0): 1},
            )
            == "training-mode"
        )

    def test_global_state_is_the_last_to_blame(self) -> None:
        assert (
            self.cause(
                ("0/1", "GLOBAL_STATE changed: grad_mode"),
                ("0/0", "tensor 'x' dtype mismatch. expected Float, actual Double"),
            )
            == "dtype"
        )


def test_sources_read_as_the_user_writes_them() -> None:
    assert (
        shown("L['self']._modules['layers']._modules['3']._parameters['weight']") == "self.layers[3].weight"
    )
    assert shown("G['TABLE']") == "TABLE"
    assert dimension("L['x'].size()[0]") == ("x", 0)
    assert dimension("L['k']") == ("k", None)
