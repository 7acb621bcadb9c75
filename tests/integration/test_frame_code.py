"""The code that Dynamo puts in a frame's place: recorded as data, put together again, decompiled."""

from __future__ import annotations

import dis
import json
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import CodeType
from typing import Any

import pytest

import compdbg
from compdbg.events import FrameCode
from compdbg.hooks.transformed import as_data
from compdbg.model.run import Run
from compdbg.report.contents import contents
from compdbg.report.page.document import document
from compdbg.views.base import Source
from compdbg.views.bytecode import NoCode, code_of, decompiled, decompiled_all
from compdbg.views.code import code

torch = pytest.importorskip("torch")
Recorder = Callable[..., AbstractContextManager[compdbg.record]]


def plain(x: Any, y: Any) -> Any:
    return torch.relu(x) * 2.5 + y


def broken(x: Any) -> Any:
    y = x.sin()
    print("between")
    return y.cos() + 1


def texts_of(run: Run) -> dict[str, str]:
    found = {event.name: run.log.text(event.text) for _, event in run.log.of(FrameCode)}
    return {name: text for name, text in found.items() if text is not None}


def recorded(record_here: Recorder, **options: Any) -> Run:
    with record_here(**options) as run:
        torch.compile(plain, backend="eager")(torch.ones(4), torch.ones(4))
        torch.compile(broken, backend="eager")(torch.ones(4))
    return compdbg.load(run.path)


@pytest.mark.torch
def test_frames_and_what_resumes_them_are_decompiled(record_here: Recorder) -> None:
    texts = texts_of(recorded(record_here))
    assert [name.partition("_in_")[0] for name in texts] == ["plain", "broken", "torch_dynamo_resume"]
    whole, first, rest = (decompiled(text) for text in texts.values())
    assert whole.why == first.why == rest.why == ""
    assert whole.text.startswith("def plain(x, y):")
    assert "__compiled_fn_" in whole.text
    assert "'between'" in first.text
    assert "__resume_at_" in first.text
    assert rest.text.startswith("def torch_dynamo_resume_in_broken_at_")
    assert "__compiled_fn_" in rest.text


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
def test_a_frame_compiled_ahead_of_time_is_decompiled(record_here: Recorder) -> None:
    with record_here() as run:
        torch.compile(plain, fullgraph=True).aot_compile(((torch.ones(4), torch.ones(4)), {}))
    (text,) = texts_of(compdbg.load(run.path)).values()
    assert decompiled(text).text.startswith("def plain(x, y):")
    assert "__compiled_fn_" in decompiled(text).text


@pytest.mark.torch
def test_no_code_is_recorded_without_source(record_here: Recorder) -> None:
    assert texts_of(recorded(record_here, source=False)) == {}


def sample(a: int, *rest: int, k: float = 0.1) -> Any:
    inner = [lambda z: (z, a, b"\x00", 1e300, -0.0, 2**80, 3j, ..., (1, ("x", None)))]
    try:
        return {*rest} & {1, 2, 3} if k else inner
    except ValueError:
        return a in {"p", "q"}


def test_code_comes_back_as_it_was() -> None:
    again = code_of(json.loads(json.dumps(as_data(sample.__code__))))
    assert again == sample.__code__
    assert [i[:3] for i in dis.get_instructions(again)] == [
        i[:3] for i in dis.get_instructions(sample.__code__)
    ]


def test_what_is_no_plain_constant_is_named_and_not_kept() -> None:
    made = plain.__code__.replace(co_consts=(None, torch.float16, object))
    assert as_data(made)["consts"] == [None, {"other": "torch.float16"}, {"other": "<builtins.type>"}]
    assert repr(code_of(as_data(made)).co_consts) == "(None, torch.float16, <builtins.type>)"


@pytest.mark.parametrize(
    "spoiled",
    [
        {},
        {"code": "no hex"},
        {"names": [1]},
        {"nlocals": -1},
        {"consts": [{"run": "x"}]},
        {"stacksize": 2**70},
    ],
)
def test_parts_of_no_code_are_refused(spoiled: dict[str, Any]) -> None:
    with pytest.raises(NoCode):
        code_of({**as_data(sample.__code__), **spoiled} if spoiled else {})


def text_of(made: CodeType, python: str = "{}.{}".format(*sys.version_info)) -> str:
    return json.dumps({"python": python, "code": as_data(made), "dis": "RESUME 0"})


def test_another_python_shows_what_was_recorded() -> None:
    told = decompiled(text_of(sample.__code__, "3.1"))
    assert told.text == "RESUME 0"
    assert "recorded by Python 3.1" in told.why


def test_what_depyf_cannot_do_is_said_with_the_instructions() -> None:
    told = decompiled(text_of(sample.__code__.replace(co_code=bytes([255, 255] * 8))))
    assert told.text == "RESUME 0"
    assert told.why.startswith("could not be decompiled: ")


def test_what_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("compdbg.views.bytecode.TIME_S", 0.001)
    told = decompiled(text_of(broken.__code__))
    assert told.text == "RESUME 0"
    assert "took more than" in told.why


def test_what_was_recorded_is_never_run(tmp_path: Any) -> None:
    """depyf evaluates the text that it made of the keys of a dict, here that of a call."""
    trap = tmp_path / "ran"
    keys = f"__import__('pathlib').Path({str(trap)!r}).touch()"
    source = compile("def f(k):\n    return {'a': k, 'b': k}", "f", "exec").co_consts[0]
    place = next(i.offset for i in dis.get_instructions(source) if i.argval == ("a", "b"))
    trapped = bytearray(source.co_code)
    trapped[place : place + 2] = bytes([dis.opmap["LOAD_NAME"], 0])
    spoiled = source.replace(co_code=bytes(trapped), co_names=(keys,))
    told = decompiled(text_of(spoiled))
    assert not trap.exists()
    assert told.why.startswith("could not be decompiled: ")


@pytest.mark.torch
def test_a_frame_costs_little(record_here: Recorder) -> None:
    with record_here():
        from compdbg.hooks.compiling import Compiling
        from compdbg.hooks.transformed import record_code

        taken = []
        for n in range(20):
            made = broken.__code__.replace(co_firstlineno=n + 1)
            began = time.process_time()
            record_code(Compiling(made, "0/0", ""), made)
            taken.append(time.process_time() - began)
    assert sorted(taken)[10] < 0.02


@pytest.mark.torch
def test_a_report_holds_the_code_as_python(record_here: Recorder, tmp_path: Any) -> None:
    run = recorded(record_here)
    page = tmp_path / "run.html"
    page.write_text(document(contents(run.log)))
    carried = compdbg.load(page)
    for name, text in texts_of(carried).items():
        assert text.startswith(f"def {name}(")
        assert decompiled(text).text == text
    assert len(texts_of(carried)) == 3
    named = [text for text in code(Source(carried, [])).texts if text.stage == "bytecode"]
    assert [text.graph for text in named] == [f"{n}/0" for n in range(3)]


def test_one_that_cannot_be_decompiled_spoils_no_other() -> None:
    spoiled = sample.__code__.replace(co_code=bytes([255, 255] * 8))
    made = decompiled_all([text_of(plain.__code__), text_of(spoiled), text_of(broken.__code__), "{"], 30)
    assert [one.why.partition(":")[0] for one in made] == [
        "",
        "could not be decompiled",
        "",
        "what was recorded of it is damaged",
    ]
