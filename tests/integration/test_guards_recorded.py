"""Every guard of every entry: type, expression, source, line, kept or dropped and by whom, frozen values."""

from __future__ import annotations

import functools
from pathlib import Path

import msgspec
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from compdbg.findings.collect import find_all  # noqa: E402
from compdbg.views.base import Source  # noqa: E402
from compdbg.views.guards import guards as guards_view  # noqa: E402
from tests.integration.guards_here import compiled, drop_all  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

ONES = torch.ones(4, 3)
SETTINGS = {"scale": 2.0}
KEYS = {
    "frame", "compile_id", "type", "expr", "source", "where", "kept", "layer", "dropped_by", "checked",
    "violations", "first_violation", "audit",
}  # fmt: skip


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.drop = nn.Linear(3, 3), nn.Dropout(0.5)
        self.mode, self.depth = "fast", 2

    def forward(self, x, mask=None):
        y = self.drop(self.linear(x)) * SETTINGS["scale"]
        if self.mode == "fast":
            y = y + self.depth
        return y if mask is None else y * mask


def scaled(x):
    return x * SETTINGS["scale"]


def entry_of(record_here, target, **options):
    with record_here() as recorded:
        step = compiled(target) if not options else torch.compile(target, backend="eager", **options)
        step(ONES)
        step(ONES)
    run = recorded.load()
    (entry,) = run.entries
    return entry, run


def test_a_guard_has_type_expression_source_and_the_users_line(record_here):
    entry, _ = entry_of(record_here, Model())
    by_source = {guard.source: guard for guard in entry.guards}
    mode = by_source["L['self'].mode"]
    assert (mode.type, mode.expr, mode.value) == ("CONSTANT_MATCH", "L['self'].mode == 'fast'", "fast")
    assert (Path(mode.where.file).name, mode.where.function) == (Path(__file__).name, "forward")
    weight = next(guard for source, guard in by_source.items() if source.endswith("['weight']"))
    assert weight.type == "TENSOR_MATCH"
    assert weight.expr.startswith("check_tensor(")
    assert "torch.float32" in weight.expr


def test_who_dropped_it_is_named_with_its_place(record_here):
    line = drop_all.__code__.co_firstlineno
    entry, _ = entry_of(record_here, scaled)
    assert {guard.dropped_by for guard in entry.guards} == {
        f"drop_all ({drop_all.__code__.co_filename}:{line})"
    }


def keep_types(kept, guards):
    return [guard.guard_type in kept for guard in guards]


class Keeper:
    def __call__(self, guards):
        return [guard.guard_type != "TENSOR_MATCH" for guard in guards]


@pytest.mark.parametrize(
    ("guard_filter", "name"),
    [
        (functools.partial(keep_types, ("TENSOR_MATCH",)), "keep_types"),
        (Keeper(), "Keeper"),
        (torch.compiler.skip_all_guards_unsafe, "torch.compiler.skip_all_guards_unsafe"),
    ],
)
def test_filters_of_every_kind_have_a_name(record_here, guard_filter, name):
    entry, _ = entry_of(record_here, scaled, options={"guard_filter_fn": guard_filter})
    assert entry.dropped_by.partition(" (")[0] == name


def test_a_partial_filter_drops_what_it_drops(record_here):
    keep = functools.partial(keep_types, ("TENSOR_MATCH", "GLOBAL_STATE"))
    entry, _ = entry_of(record_here, scaled, options={"guard_filter_fn": keep})
    assert {guard.type for guard in entry.guards if guard.kept} == {"TENSOR_MATCH", "GLOBAL_STATE"}
    assert "CONSTANT_MATCH" in {guard.type for guard in entry.dropped}


def test_hooks_of_modules_are_guards_that_torch_drops_by_itself(record_here):
    entry, run = entry_of(record_here, Model(), fullgraph=True)
    dropped = entry.dropped
    assert {guard.type for guard in dropped} == {"EMPTY_NN_MODULE_HOOKS_DICT"}
    assert {g.dropped_by for g in dropped} == {"torch._dynamo.config.skip_nnmodule_hook_guards"}
    assert entry.dropped_by is None
    assert [f.code for f in find_all(run) if f.code == "guard-dropped-violated"] == []


def test_rows_have_the_keys_of_the_contract(record_here):
    with record_here() as recorded:
        step = compiled(scaled)
        for _ in range(3):
            step(ONES)
        SETTINGS["scale"] = 3.0
        step(ONES)
        SETTINGS["scale"] = 2.0
    run = recorded.load()
    view = guards_view(Source(run, find_all(run)))
    rows = [msgspec.to_builtins(row) for row in view.items]
    assert all(set(row) >= KEYS for row in rows)
    (scale,) = [row for row in rows if row["violations"]]
    assert scale["expr"] == "G['SETTINGS']['scale'] == 2.0"
    assert scale["first_violation"] == {"call": 4, "seen": "3.0", "effect": "differs"}
    assert (scale["kept"], scale["checked"], scale["audit"]) == (False, 3, "on")
    assert scale["audit_reason"] == "checked on all 3 later calls"
    assert "1 cause of wrong calls" in view.lines[0]


def test_kept_guards_say_that_torch_checks_them(record_here):
    entry, run = entry_of(record_here, scaled, fullgraph=True)
    view = guards_view(Source(run, []))
    assert {row.audit for row in view.items} == {"not-audited"}
    assert {row.checked for row in view.items} == {None}
    assert view.lines == [f"0/0 {Path(entry.frame).name}: {len(entry.guards)} guards, all kept"]


def test_frozen_values_are_one_finding_with_names_values_and_lines(record_here):
    _, run = entry_of(record_here, Model())
    (finding,) = [f for f in find_all(run) if f.code == "constant-baked"]
    assert finding.severity == "info"
    names = {c["name"]: c["value"] for c in finding.data["constants"]}
    assert names == {
        "mask": None,
        "SETTINGS['scale']": 2.0,
        "self.mode": "fast",
        "self.depth": 2,
        "self.drop.training": True,
    }
    assert all(c["line"] for c in finding.data["constants"] if c["name"] != "self.drop.training")


def test_a_dtype_by_its_name_is_no_frozen_value(record_here):
    _, run = entry_of(record_here, lambda x: x.to(torch.float64))
    assert [f for f in find_all(run) if f.code == "constant-baked"] == []


def test_what_was_seen_to_change_is_not_called_frozen(record_here):
    with record_here() as recorded:
        step = compiled(scaled)
        step(ONES)
        SETTINGS["scale"] = 3.0
        step(ONES)
        SETTINGS["scale"] = 2.0
    assert [f.code for f in find_all(recorded.load())] == ["guard-dropped-violated"]


def test_nothing_is_called_frozen_where_guards_are_kept(record_here):
    _, run = entry_of(record_here, Model(), fullgraph=True)
    assert [f for f in find_all(run) if f.code == "constant-baked"] == []


def test_flags_of_a_model_that_agree_are_one_constant(record_here):
    layers = nn.Sequential(*(nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.1)) for _ in range(3)))
    _, run = entry_of(record_here, layers)
    (finding,) = [f for f in find_all(run) if f.code == "constant-baked"]
    assert [c["name"] for c in finding.data["constants"]] == ["training of 3 modules"]
