"""Runs made event by event, with times and ids that never change, so that screens can be compared."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec

from compdbg.events import (
    CacheLookup,
    Capture,
    ChildEnd,
    CompileRequest,
    Dispatch,
    Event,
    FactorChange,
    FrameCalls,
    FrameEnd,
    FrameStart,
    FusionEnabled,
    GeneratedCode,
    Graph,
    Guard,
    GuardAudit,
    Guards,
    GuardViolation,
    HookState,
    MatchAttempt,
    NearMiss,
    PassRun,
    Pattern,
    PatternPass,
    Piece,
    PieceCompiled,
    ProcessEnd,
    ProcessStart,
    RecompileReason,
    Span,
    SpanBegin,
    TorchLoaded,
    Where,
)
from compdbg.events.pipeline import Boundary

BEGAN = 1_700_000_000.0
PROGRAM = Where("/tmp/compdbg-tests/serve.py", 61, "forward")
FRAME = "/tmp/compdbg-tests/serve.py:59:forward"
GRAPH = """\
def forward(self, arg0_1: "f32[s77, 64]", arg1_1: "f32[64]"):
    # File: /tmp/compdbg-tests/serve.py:60 in forward, code: h = rms_norm(x, self.weight, 1e-6).round()
    rms_norm: "f32[s77, 64]" = torch.ops.demo.rms_norm.default(arg0_1, arg1_1, 1e-06)
    round_1: "f32[s77, 64]" = torch.ops.aten.round.default(rms_norm)
    # File: /tmp/compdbg-tests/serve.py:62 in forward, code: h = h * 0.5
    mul: "f32[s77, 64]" = torch.ops.aten.mul.Tensor(round_1, 0.5)
    return (mul,)
"""
KERNEL = """\
async_compile = AsyncCompile()
# Topologically Sorted Source Nodes: [h], Original ATen: [aten.mul]
cpp_fused_mul_0 = async_compile.cpp_pybinding(['const float*', 'float*'], '''
extern "C" void kernel(const float* in_ptr0, float* out_ptr0)
{
    for (int64_t x0 = 0; x0 < 64; x0 += 1) out_ptr0[x0] = 0.5f * in_ptr0[x0];
}
''')
"""


SOURCE = {
    58: "",
    59: "    def forward(self, x):",
    60: "        h = rms_norm(x, self.weight, 1e-6).round()",
    61: "        if x.shape[0] > 8:",
    62: "            h = h * 0.5",
    63: "        return self.up(h)",
    88: "def main():",
    89: "    for batch in batches:",
    90: "        model(batch)",
}
"""What the program says at the lines that the events name."""


def know_source() -> None:
    """Let the program's file be there, as far as it is read."""
    path = Path(PROGRAM.file)
    path.parent.mkdir(exist_ok=True)
    partial = path.with_name(f"{os.getpid()}.partial")
    partial.write_text("".join(f"{SOURCE.get(n, '')}\n" for n in range(1, 91)))
    partial.replace(path)


class Builder:
    """Writes a run folder: every event 10 ms after the one before, in one process a rank."""

    def __init__(self, folder: Path, *, argv: list[str] | None = None, schema: str = "1.0") -> None:
        self.folder = folder
        (folder / "payloads").mkdir(parents=True)
        self._argv = argv or ["serve.py", "--steps", "100"]
        self._schema = schema
        self._seq: dict[str, int] = {}
        self.rank: int | None = None
        self._time = BEGAN
        self.manifest(complete=False)

    def manifest(self, *, complete: bool, **fields: Any) -> None:
        said = {
            "schema": self._schema,
            "compdbg": "0.1",
            "argv": self._argv,
            "started": "2023-11-14T22:13:20+00:00",
            "pid": 1000,
            "host": "host",
            "options": {},
            "complete": complete,
            **fields,
        }
        (self.folder / "run.json").write_text(json.dumps(said))

    def text(self, content: str, digest: str) -> str:
        """Store a large text under a hash that is its name in full."""
        name = (digest * 32)[:32]
        (self.folder / "payloads" / f"{name}.txt").write_text(content)
        return name

    def add(self, event: Event, *, after: float = 0.01, parent: int | None = None) -> int:
        """Append an event of the current rank; its `seq`."""
        return self.line(msgspec.json.decode(msgspec.json.encode(event)), after, parent)

    def line(self, fields: dict[str, Any], after: float = 0.01, parent: int | None = None) -> int:
        """Append a line, whatever it says."""
        process = f"{1000 + (self.rank or 0)}-abcdef"
        seq = self._seq[process] = self._seq.get(process, 0) + 1
        self._time += after
        header = {"run": "r", "process": process, "rank": self.rank, "seq": seq, "time": self._time}
        with (self.folder / f"host-{process}.jsonl").open("a") as log:
            log.write(json.dumps({**header, "parent": parent, **fields}) + "\n")
        return seq

    def start(self) -> None:
        self.add(ProcessStart(pid=1000, ppid=1, argv=self._argv, executable="python", python="3.11.7"))
        self.add(Span(name="import torch", duration_s=1.5), after=1.5)
        self.add(TorchLoaded(torch="2.13.0"))
        self.add(HookState(hook="dynamo", state="works"))

    def end(self, *, status: int = 0, signal: int | None = None) -> None:
        if signal is None:
            self.add(ProcessEnd())
        known = status if signal is None else None
        self.add(ChildEnd(pid=1000, exit_status=known, signal=signal, duration_s=9.0))
        self.manifest(complete=True, duration_s=9.0, exit_status=known, signal=signal)


def compiled_with_a_branch(run: Builder) -> None:
    """A frame whose dropped size guard is false on call 3, and a fusion that did not fire."""
    run.add(CompileRequest(target="Model", where=PROGRAM, request="1.0", drops_guards=True, code=FRAME))
    run.add(
        FrameStart(frame=FRAME, compile_id="0/0", where=PROGRAM, request="1.0", name="Model.forward"),
    )
    graph = run.text(GRAPH, "a1")
    run.add(Graph(graph="0/0", stage="dynamo", text=graph, compile_id="0/0", ops={"demo.rms_norm": 1}))
    run.add(
        Graph(graph="0/0", stage="post-grad", text=graph, compile_id="0/0", ops={"aten.mul.Tensor": 1}),
    )
    _fusion(run, graph)
    run.add(
        GeneratedCode(graph="0/0", path="c1", text=run.text(KERNEL, "b2"), compile_id="0/0", kernels=1),
    )
    guards = run.add(Guards(frame=FRAME, compile_id="0/0", guards=_GUARDS, drop_requested=True, audit="on"))
    run.add(
        FrameEnd(
            frame=FRAME, compile_id="0/0", result="compiled", duration_ms=2400.0, graph_ops=3, request="1.0"
        ),
        after=2.0,
    )
    run.add(
        GuardViolation(
            frame=FRAME,
            compile_id="0/0",
            call=3,
            expr="9 <= L['x'].size()[0]",
            type="SHAPE_ENV",
            source="L['x'].size()[0]",
            wanted="x.shape[0] >= 9",
            seen="x.shape[0] = 4",
            guard_kind="shape",
            effect="differs",
            why="the branch taken while tracing is the only one in the compiled code",
            where=PROGRAM,
            cause="size",
            name="x.shape[0]",
        ),
        parent=guards,
    )
    run.add(
        GuardAudit(
            frame=FRAME,
            compile_id="0/0",
            calls=20,
            checked=19,
            violations={"9 <= L['x'].size()[0]": 4},
            causes={"size": 4},
        ),
        parent=guards,
    )
    run.add(FrameCalls(frame=FRAME, compile_id="0/0", calls=20))


_GUARDS = [
    Guard(
        type="SHAPE_ENV", expr="9 <= L['x'].size()[0]", source="L['x'].size()[0]", where=PROGRAM, kept=False
    ),
    Guard(
        type="TENSOR_MATCH",
        expr="check_tensor(L['x'], Tensor, DispatchKeySet(CPU, BackendSelect), torch.float32, device=None, "
        "requires_grad=False, size=[None, 64], stride=[64, 1])",
        source="L['x']",
        where=PROGRAM,
        kept=False,
    ),
    Guard(type="GRAD_MODE", expr="grad mode (checked by ___check_global_state())"),
]


def _fusion(run: Builder, graph: str) -> None:
    where = Where("/tmp/compdbg-tests/serve.py", 60, "forward")
    passes = [("fuse_attention", False), ("remove_noop_ops", True), ("pointless_view", False)]
    for index, (name, changed) in enumerate(passes):
        run.add(
            PassRun(
                pass_name=name,
                graph="0/0",
                index=index,
                changed=changed,
                op_delta={"aten.view": -1} if changed else {},
                duration_us=120.0,
                before=graph if changed else None,
                after=run.text(GRAPH.replace("mul", "mul_1"), "c3") if changed else None,
            ),
        )
    run.add(
        FusionEnabled(slot="post_grad_custom_post_pass", key="k", name="NormRoundFusionPass", where=PROGRAM),
    )
    pattern = Pattern(
        name="norm_round",
        where=PROGRAM,
        anchors=["aten.round.default"],
        ops=["demo.rms_norm.default"],
        nodes=2,
    )
    run.add(
        PatternPass(
            pass_id="p1",
            pass_name="NormRoundFusionPass",
            graph="0/0",
            graph_id=1,
            stage="post-grad",
            patterns=[pattern],
            attempted=1,
            attempted_by={"norm_round": 1},
            compile_id="0/0",
        ),
    )
    run.add(
        MatchAttempt(
            pass_id="p1",
            pass_name="NormRoundFusionPass",
            pattern="norm_round",
            graph="0/0",
            anchor="round_1",
            outcome="missed",
            graph_id=1,
            near=True,
            near_nodes=["rms_norm"],
            compile_id="0/0",
            where=where,
            miss=NearMiss(
                reason="arg-mismatch",
                stage="second",
                node="rms_norm",
                wanted="eps=1e-05 of demo.rms_norm.default",
                found="eps=1e-06",
                matched_nodes=1,
                pattern_nodes=2,
                where=where,
            ),
        ),
    )


def split_and_captured(run: Builder, *, fails_at: int | None = None) -> None:
    """Five pieces of which two are twins, sizes served by captures, and perhaps a capture that failed."""
    x = Boundary(name="x", shape=["s77", "64"], dtype="float32")
    for n in range(5):
        splitting = n % 2 == 1
        run.add(
            Piece(
                graph="Model",
                piece=f"piece_{n}",
                piece_kind="splitting" if splitting else "compiled",
                ops=1 + n,
                split_op="demo::attention" if splitting else None,
                shared_with="piece_2" if n == 4 else None,
                inputs=[x],
                outputs=[x],
                text=run.text(GRAPH, "a1"),
            ),
        )
    for piece in ("piece_0", "piece_2"):
        run.add(
            PieceCompiled(graph="Model", piece=piece, range="1-", duration_ms=800.0, backend="inductor"),
        )
    for size in (8, 16, 32):
        failed = size == fails_at
        run.add(
            Capture(
                graph="Model",
                piece="piece_0",
                size=size,
                duration_ms=4.5,
                bytes=8192,
                emulated=True,
                mode="PIECEWISE",
                error="aten._local_scalar_dense reads a value back" if failed else None,
                fault="sync" if failed else None,
                op="aten._local_scalar_dense" if failed else "",
                where=PROGRAM,
                stack=[Where("/tmp/compdbg-tests/serve.py", 90, "main"), PROGRAM] if failed else [],
            ),
        )
    for size, padded in ((3, 8), (8, 8), (9, 16), (17, 32), (40, None)):
        none = padded is None or padded == fails_at
        run.add(
            Dispatch(
                graph="Model",
                size=size,
                compiled_as="1-",
                padded_to=padded,
                replays=0 if none else 6,
                eager_calls=12 if none else 0,
            ),
        )


def started_slowly(run: Builder) -> None:
    """A compile of 26 s, most of it in kernels; caches that missed for a changed version."""
    outer = run.add(SpanBegin(name="compile", compile_id="0/0"))
    for name, seconds in (("bytecode_tracing", 1.0), ("joint_passes", 2.0), ("compile_kernels", 20.0)):
        inner = run.add(SpanBegin(name=name, compile_id="0/0"), parent=outer)
        run.add(
            Span(name=name, duration_s=seconds, compile_id="0/0", begin=inner),
            after=seconds,
            parent=outer,
        )
    run.add(Span(name="compile", duration_s=26.0, compile_id="0/0", begin=outer), after=3.0)
    run.add(
        CacheLookup(
            layer="fx",
            result="miss",
            key="f3a9c1d2e4b5",
            graph="0/0",
            place=FRAME,
            nearest_key="a1b2c3d4e5f6",
            nearest_run="serve-20231113",
            nearest_made=BEGAN - 86400,
            duration_ms=3.2,
            changed_factors=[FactorChange(name="torch", before="2.12.1", after="2.13.0")],
        ),
    )


def recompiled(run: Builder) -> None:
    """A function that was compiled five times, because the width of its second argument grows."""
    frame, where = "/srv/engine/score.py:4:score", Where("/srv/engine/score.py", 4, "score")
    run.add(CompileRequest(target="score", where=where, request="1.1", code=frame))
    for n in range(6):
        if n:
            run.add(
                RecompileReason(
                    frame=frame,
                    compile_id=f"1/{n}",
                    failed_compile_id=f"1/{n - 1}",
                    reason=f"tensor 'k' size mismatch at index 1. expected {n + 1}, actual {n + 2}",
                    where=where,
                )
            )
        run.add(FrameStart(frame=frame, compile_id=f"1/{n}", where=where, request="1.1", name="score"))
        run.add(Guards(frame=frame, compile_id=f"1/{n}", guards=[Guard(type="GRAD_MODE", expr="grad mode")]))
        run.add(
            FrameEnd(frame=frame, compile_id=f"1/{n}", result="compiled", duration_ms=300.0, request="1.1")
        )


def everything(folder: Path) -> Path:
    """A run with something in every place."""
    run = Builder(folder)
    run.start()
    compiled_with_a_branch(run)
    recompiled(run)
    split_and_captured(run, fails_at=32)
    started_slowly(run)
    run.end()
    return folder
