"""Two runs compared: what is the same under other names is no difference, and what differs is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from compdbg.compare.findings import unmatched
from compdbg.compare.runs import Difference, compare
from compdbg.events import (
    CachedWork,
    CacheLookup,
    Dispatch,
    Event,
    FrameEnd,
    FrameStart,
    Graph,
    Guard,
    Guards,
    Header,
    PassRun,
    Piece,
    ProcessStart,
    Span,
    TorchLoaded,
    Where,
)
from compdbg.events.guards import LOADED
from compdbg.findings.base import Finding
from compdbg.model.run import Run
from compdbg.report import diff as text
from compdbg.store.ranks import open_side
from compdbg.store.reader import CannotRead, Log, Record
from compdbg.views.diff import diff


class Made:
    """A run of events, with texts kept as a run folder keeps them."""

    def __init__(self, folder: Path, process: str = "1-a", script: str = "model.py") -> None:
        self.folder, self.process = folder, process
        self.records: list[Record] = []
        (folder / "payloads").mkdir(parents=True)
        self.manifest = {"argv": [script], "complete": True, "exit_status": 0}

    def add(self, *events: Event, rank: int | None = None) -> Made:
        for event in events:
            n = len(self.records) + 1
            process = self.process if rank is None else f"{self.process}{rank}"
            header = Header(process=process, seq=n, time=float(n), rank=rank)
            self.records.append(Record(header, event))
        return self

    def text(self, content: str) -> str:
        name = f"{abs(hash((str(self.folder), content))):032x}"[:32]
        (self.folder / "payloads" / f"{name}.txt").write_text(content)
        return name

    @property
    def run(self) -> Run:
        return Run(Log(self.folder, self.manifest, self.records))


@pytest.fixture
def made(tmp_path: Path) -> tuple[Made, Made]:
    return Made(tmp_path / "a"), Made(tmp_path / "b", process="2-b")


def between(a: Made, b: Made) -> list[tuple[str, str, str | None, str | None]]:
    return [(d.view, d.key, d.a, d.b) for d in compare(a.run, [], b.run, [])]


def compiled(frame: str, compile_id: str = "0/0", ms: float = 10.0) -> tuple[Event, Event]:
    end = FrameEnd(frame=frame, compile_id=compile_id, result="compiled", duration_ms=ms, graph_ops=4)
    return FrameStart(frame=frame, compile_id=compile_id), end


def guards(frame: str, compile_id: str, *of: tuple[str, str, str]) -> Guards:
    made = [Guard(type=t, source=s, expr=e, kept=True) for t, s, e in of]
    return Guards(frame=frame, compile_id=compile_id, guards=made)


class TestTheSame:
    def test_ids_addresses_lines_and_folders_do_not_count(self, made: tuple[Made, Made]) -> None:
        for side, folder, line, number, address in zip(
            made, ("/a", "/home/b"), (9, 12), ("0/0", "3/0"), ("139742827067440", "7f2a1b2c3d"), strict=True
        ):
            frame = f"{folder}/model.py:{line}:forward"
            check = ("MODULE_MATCH", "G['torch']", f"___check_obj_id(G['torch'], 0x{address})")
            side.add(
                *compiled(frame, number),
                guards(frame, number, check),
                Graph(graph=number, stage="dynamo", text="", compile_id=number, ops={"add": 1}),
                PassRun(pass_name="tidy", graph=number, index=0),
                CacheLookup(graph=number, layer="fx", result="hit", key="k", compile_id=number),
            )
        assert between(*made) == []

    def test_values_and_symbols_named_otherwise_are_the_same_graph(self, made: tuple[Made, Made]) -> None:
        texts = [
            'def forward(\n    a_1: "f32[s77, 4]cpu",\n):\n    # a.py:3 in f: x\n'
            '    add_1: "f32[s77, 4]cpu" = aten.add.Tensor(a_1, 1)\n    return (add_1,)',
            'def forward(\n    b_1: "f32[s3, 4]cpu",\n):\n    # a.py:8 in f: x\n'
            '    add_5: "f32[s3, 4]cpu" = aten.add.Tensor(b_1, 1)\n    return (add_5,)',
        ]
        for side, content in zip(made, texts, strict=True):
            side.add(*compiled("/a.py:1:f"))
            side.add(Graph(graph="0/0", stage="dynamo", text=side.text(content), ops={"aten.add.Tensor": 1}))
        assert between(*made) == []

    def test_what_a_cache_stands_for_is_compared_by_its_record(self, made: tuple[Made, Made]) -> None:
        fuse = PassRun(pass_name="Fuse", graph="0/0", index=4, changed=True, op_delta={"a": -1}, custom=True)
        idle = PassRun(pass_name="tidy", graph="0/0", index=3)
        made[0].add(*compiled("/a.py:1:f"), idle, fuse)
        made[1].add(
            *compiled("/a.py:1:f"),
            CachedWork(graph="0/0", layer="fx", key="k", run="a", made=1.0, passes=[fuse]),
        )
        assert between(*made) == []

    def test_a_frame_that_was_loaded_is_not_held_against_its_trace(self, made: tuple[Made, Made]) -> None:
        check = ("CONSTANT", "L['n']", "L['n'] == 3")
        made[0].add(*compiled("/a.py:1:f"), guards("/a.py:1:f", "0/0", check))
        made[1].add(guards("/a.py:1:f", LOADED, ("CONSTANT", "L['n']", "L['n'] is 3")))
        assert between(*made) == []

    def test_a_renamed_program_is_compared_with_itself(self, tmp_path: Path) -> None:
        before, after = Made(tmp_path / "a", script="old.py"), Made(tmp_path / "b", script="new.py")
        before.add(*compiled("/a/old.py:1:f"))
        after.add(*compiled("/a/new.py:4:f"))
        assert between(before, after) == []

    def test_the_findings_of_an_edited_file_are_known_again(self) -> None:
        def at(line: int, fingerprint: str) -> Finding:
            return Finding(
                code="fusion-missed",
                severity="warning",
                title="",
                cause="",
                suggestion="",
                where=Where("/m.py", line, "f"),
                subject="Norm",
                fingerprint=fingerprint,
            )

        assert unmatched([at(9, "b" * 12)], [at(7, "a" * 12)]) == []

    @pytest.mark.parametrize(("seconds", "clear"), [(14.0, False), (31.0, True)])
    def test_times_only_when_clearly_different(
        self, made: tuple[Made, Made], seconds: float, clear: bool
    ) -> None:
        made[0].add(*compiled("/a.py:1:f", ms=10_000.0))
        made[1].add(*compiled("/a.py:1:f", ms=seconds * 1e3))
        told = [("time", "compiling a.py:f", "10.0 s", "31.0 s")]
        assert between(*made) == (told if clear else [])

    def test_a_machine_that_imports_slowly_compiles_slowly(self, made: tuple[Made, Made]) -> None:
        for side, slow in zip(made, (1, 3), strict=True):
            side.add(
                Span(name="import torch", duration_s=2.0 * slow), *compiled("/a.py:1:f", ms=10_000.0 * slow)
            )
        assert between(*made) == []


class TestDifferences:
    def test_versions(self, made: tuple[Made, Made]) -> None:
        made[0].add(TorchLoaded(torch="2.13.0", device="cpu"))
        made[1].add(TorchLoaded(torch="2.14.1", device="cpu"))
        assert between(*made) == [("summary", "torch", "2.13.0", "2.14.1")]

    def test_a_guard_with_another_value_is_one_difference(self, made: tuple[Made, Made]) -> None:
        for side, value in zip(made, (3, 5), strict=True):
            guard = ("EQUALS_MATCH", "L['n']", f"L['n'] == {value}")
            side.add(*compiled("/a.py:1:f"), guards("/a.py:1:f", "0/0", guard))
        assert between(*made) == [
            ("guards", "a.py:f: EQUALS_MATCH L['n']", "L['n'] == 3 (kept)", "L['n'] == 5 (kept)")
        ]

    def test_the_first_pass_after_which_graphs_differ(self, made: tuple[Made, Made]) -> None:
        for side, delta in zip(made, ({"aten.mm": 1}, {"aten.bmm": 1}), strict=True):
            side.add(
                *compiled("/a.py:1:f"),
                PassRun(pass_name="same", graph="0/0", index=0, changed=True, op_delta={"aten.add": 1}),
                PassRun(pass_name="outer", graph="0/0", index=1, changed=True, op_delta=delta),
                PassRun(pass_name="inner", graph="0/0", index=2, within=1, custom=True, changed=True,
                        op_delta=delta),
                PassRun(pass_name="after", graph="0/0", index=3, changed=True, op_delta=delta),
            )  # fmt: skip
        assert between(*made) == [
            ("passes", "a.py:f: graphs differ first after the pass inner", "+1 aten.mm", "+1 aten.bmm"),
            ("passes", "a.py:f: inner", "+1 aten.mm", "+1 aten.bmm"),
            ("passes", "a.py:f: after", "+1 aten.mm", "+1 aten.bmm"),
        ]

    def test_a_pass_that_did_nothing_this_time(self, made: tuple[Made, Made]) -> None:
        fuse = {"pass_name": "Fuse", "graph": "0/0", "index": 1, "within": 0}
        outer = {"pass_name": "outer", "graph": "0/0", "index": 0}
        for side, delta in zip(made, ({"aten.mm": -1}, {}), strict=True):
            side.add(*compiled("/a.py:1:f"))
            side.add(*(PassRun(**p, changed=bool(delta), op_delta=delta) for p in (fuse, outer)))
        assert between(*made) == [
            ("passes", "a.py:f: graphs differ first after the pass Fuse", "-1 aten.mm", "nothing"),
            ("passes", "a.py:f: Fuse", "-1 aten.mm", "ran, changed nothing"),
        ]

    def test_ops_of_a_stage(self, made: tuple[Made, Made]) -> None:
        for side, ops in zip(made, ({"split": 1, "add": 2}, {"slice": 3, "add": 2}), strict=True):
            side.add(*compiled("/a.py:1:f"), Graph(graph="0/0", stage="aot-inference", text="", ops=ops))
        assert between(*made) == [("passes", "a.py:f: ops at the stage aot-inference", "1 split", "3 slice")]

    def test_components_of_keys_each_once(self, made: tuple[Made, Made]) -> None:
        for side, version in zip(made, ("2.13", "2.14"), strict=True):
            side.add(*compiled("/a.py:1:f"), *compiled("/a.py:1:f", "0/1"))
            for graph in ("0/0", "0/1"):
                factors = side.text(f"torch: {version}\nsame: yes\n{graph}")
                side.add(CacheLookup(graph=graph, layer="ours", result="miss", key=version, factors=factors))
        assert between(*made) == [("cache", "factor torch of 2 keys", "2.13", "2.14")]

    def test_pieces_and_sizes(self, made: tuple[Made, Made]) -> None:
        for side, twin, replays in zip(made, ("submod_0", None), (3, 4), strict=True):
            side.add(
                *compiled("/a.py:1:f"),
                Piece(graph="0/0", piece="submod_0", piece_kind="compiled", ops=3),
                Piece(graph="0/0", piece="submod_2", piece_kind="compiled", ops=3, shared_with=twin),
                Dispatch(graph="0/0", size=4, captures=1, replays=replays),
            )
        assert between(*made) == [
            ("splits", "a.py:f submod_2", "compiled, twin of submod_0", "compiled"),
            (
                "splits",
                "a.py:f: pieces",
                "2 compiled, 1 of them unique; 0 splitting",
                "2 compiled, 2 of them unique; 0 splitting",
            ),
            ("sizes", "a.py:f size 4: calls", "3 replays, 0 without a capture",
             "4 replays, 0 without a capture"),
        ]  # fmt: skip

    def test_ranks_that_differ_are_told_by_rank(self, made: tuple[Made, Made]) -> None:
        for side, ops in zip(made, (4, 5), strict=True):
            for rank in (0, 1):
                began = ProcessStart(pid=rank, ppid=0, argv=[], executable="", python="", cwd="", host="",
                                     how="run")  # fmt: skip
                start, end = compiled("/a.py:1:f")
                other = FrameEnd(
                    frame=end.frame, compile_id="0/0", result="compiled", graph_ops=ops if rank else 4
                )
                graph = Graph(graph="0/0", stage="dynamo", text="", ops={"add": ops if rank else 4})
                side.add(began, start, other, graph, rank=rank)
        assert between(*made) == [
            ("frames", "a.py:f: ops that Dynamo traced", "4", "rank 0: 4, rank 1: 5"),
            ("passes", "rank 1: a.py:f: ops at the stage dynamo", "4 add", "5 add"),
        ]


def test_text_is_a_diff(made: tuple[Made, Made]) -> None:
    a, b = made[0].run, made[1].run
    found = [Difference(view="fusion", key="Norm on f", change="changed", a="fired at 1", b="no match")]
    shown = text.render(diff(found, a.summary, b.summary, ("old", "new")))
    assert shown.splitlines()[0] == "1 difference between old and new"
    assert shown.endswith("fusion\n  Norm on f\n    - fired at 1\n    + no match\n")
    many = [
        Difference(view="cache", key=f"{n} in the fx cache", change="changed", a="miss", b="hit")
        for n in range(5)
    ]
    shown = text.render(diff(many, a.summary, b.summary, ("old", "new")))
    assert shown.endswith("2 in the fx cache\n  and 2 more that differ alike\n    - miss\n    + hit\n")
    same = text.render(diff([], a.summary, b.summary, ("old", "new")))
    assert same.startswith("No difference between old and new\n")


def test_a_rank_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"schema": "1.0", "argv": ["x.py"]}')
    with pytest.raises(CannotRead, match="has no rank 1; its processes have no ranks"):
        open_side(f"{tmp_path}@1")
