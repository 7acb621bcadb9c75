"""The story of `serve.py`: a decoder of four layers with five faults, one for each walk through the page.

A fusion missed for its epsilon, a branch that is wrong from batch 17 on, a function compiled once for
each step count, a start-up of a minute, and a capture that a `.item()` breaks.
"""

from __future__ import annotations

from pathlib import Path

from compdbg.events import (
    Boundary,
    CacheLookup,
    Capture,
    CompileRequest,
    ConfigValue,
    Dispatch,
    FactorChange,
    FrameCalls,
    FrameEnd,
    FrameStart,
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
    PatternPassMade,
    Piece,
    PieceCompiled,
    RecompileReason,
    TorchLoaded,
    Where,
)
from tests.report.runs import Told, at

PROGRAM = '''\
import torch
from torch import nn

from passes import RMSNormQuantFusionPass


class Block(nn.Module):
    """One layer of the decoder."""

    def __init__(self, width, eps=1e-6):
        super().__init__()
        self.norm = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x):
        h = torch.ops.serve.rms_norm(x, self.norm, self.eps)
        return x + torch.ops.serve.attention(torch.ops.serve.quant(h, 0.05))


class Decoder(nn.Module):
    def forward(self, x):
        if x.shape[0] > 16:
            x = x * self.long_scale
        for block in self.blocks:
            x = block(x)
        return x


def pick(logits, steps):
    best = logits.topk(4).values
    if best.sum().item() > 0:
        return best[: steps]
    return logits


def sample(logits, step):
    return logits.softmax(-1) * step
'''

BEFORE = """\
def forward(
    arg0_1: "f32[s0, 64][64, 1]cpu",
    arg1_1: "f32[64][1]cpu",
):
    # {file}:16 in forward: h = torch.ops.serve.rms_norm(x, self.norm, self.eps)
    view: "f32[s0, 64][64, 1]cpu" = aten.view.default(arg0_1, [-1, 64])
    rms_norm: "f32[s0, 64][64, 1]cpu" = serve.rms_norm.default(view, arg1_1, 1e-06)
    # {file}:17 in forward: return x + torch.ops.serve.attention(torch.ops.serve.quant(h, 0.05))
    quant: "i8[s0, 64][64, 1]cpu" = serve.quant.default(rms_norm, 0.05)
    mul: "f32[s0, 64][64, 1]cpu" = aten.mul.Tensor(quant, 2)
    attention: "f32[s0, 64][64, 1]cpu" = serve.attention.default(mul)
    add: "f32[s0, 64][64, 1]cpu" = aten.add.Tensor(arg0_1, attention)
    return (add,)"""

CODE = """\
# AOT ID: ['0_inference']
import torch
from torch._inductor.async_compile import AsyncCompile

async_compile = AsyncCompile()

cpp_fused_rms_norm_0 = async_compile.cpp_pybinding(['const float*', 'float*'], '''
extern "C" void kernel(const float* in_ptr0, float* out_ptr0) {
    for (int64_t x0 = 0; x0 < 64; x0 += 16) { /* ... */ }
}
''')


def call(args):
    arg0_1, arg1_1 = args
    args.clear()
    buf0 = torch.ops.serve.rms_norm.default(arg0_1, arg1_1, 1e-06)
    cpp_fused_rms_norm_0(buf0, arg0_1)
    return (buf0,)
"""


def serving(folder: Path, source: Path) -> Path:
    """Write the run; the program lies at `source / serve.py`."""
    file = source / "serve.py"
    file.write_text(PROGRAM)
    told = Told(folder, ["serve.py", "--port", "8000"])
    told.wait(0.4)
    told.tell(TorchLoaded(torch="2.13.0+cpu", device="cpu"))
    for hook in ("dynamo", "guards", "fusion_config", "passes", "caches", "spans"):
        told.tell(HookState(hook=hook, state="works", module="torch"))
    for key, asked, got, by, why in (
        ("cudagraph_mode", "FULL", "PIECEWISE", "compdbg.compiler", "the split graph has splitting ops"),
        ("cudagraph_capture_sizes", "[1,2,4,8,16]", "[1,2,4,8,16]", "", ""),
        ("pass_config.fuse_rms_quant", "true", "true", "", ""),
    ):
        told.tell(ConfigValue(key=key, requested=asked, effective=got, changed_by=by, why=why))
    told.wait(2.1)
    _compiled(told, file)
    _recompiled(told, file)
    _captured(told, file)
    return told.end()


def _compiled(told: Told, file: Path) -> None:
    frame = f"{file}:{at(file, 'def forward', 'forward').line + 5}:forward"
    where = at(file, "if x.shape[0] > 16")
    told.tell(
        CompileRequest(
            target="Decoder",
            where=at(file, "class Decoder", "<module>"),
            request="4711.1",
            code=frame,
            drops_guards=True,
            fullgraph=True,
        )
    )  # fmt: skip
    with told.phase("dynamo", compile_id="0/0") as dynamo:
        start = told.tell(
            FrameStart(frame=frame, compile_id="0/0", where=where, request="4711.1", name="Decoder"), dynamo
        )
        told.wait(3.4)
        before = told.text(BEFORE.format(file=file))
        told.tell(
            Graph(graph="0/0", stage="dynamo", text=before, compile_id="0/0", ops=_OPS, inputs=2), start
        )
        with told.phase("compile_fx.<locals>.fw_compiler_base", start, compile_id="0/0") as backend:
            told.wait(1.2)
            _split(told, backend)
            with told.phase("_recursive_post_grad_passes", backend, compile_id="0/0") as passes:
                _passes(told, file, passes, before)
            _caches(told, backend)
            with told.phase("GraphLowering.codegen", backend, compile_id="0/0") as codegen:
                told.wait(6.5)
                with told.phase("compile_file", codegen, compile_id="0/0"):
                    told.wait(38.2)
            told.tell(
                GeneratedCode(graph="0/0", path="cfl7", text=told.text(CODE), compile_id="0/0"), backend
            )
        told.wait(0.8)
        _guards(told, frame, where, start)
        told.tell(
            FrameEnd(frame=frame, compile_id="0/0", result="compiled", duration_ms=53_000.0, graph_ops=24),
            start,
        )


_OPS = {"aten.view.default": 4, "serve.rms_norm.default": 4, "serve.quant.default": 4, "aten.add.Tensor": 4}


def _passes(told: Told, file: Path, parent: int, before: str) -> None:
    text = BEFORE.format(file=file)
    without_view = text.replace(_VIEW, "").replace("(view, arg1_1", "(arg0_1, arg1_1")
    after = told.text(without_view)
    told.wait(0.3)
    told.tell(
        PassRun(
            pass_name="NoOpEliminationPass", graph="0/0", index=0, changed=True, custom=True, before=before,
            op_delta={"aten.view.default": -4}, after=after, duration_us=412.0, compile_id="0/0",
        ),
        parent,
    )  # fmt: skip
    where = at(file, "torch.ops.serve.rms_norm")
    pass_ = {"pass_id": "p1", "pass_name": "RMSNormQuantFusionPass", "graph": "0/0"}
    told.tell(
        PatternPassMade(pass_id="p1", pass_name="RMSNormQuantFusionPass", where=Where(str(file), 4, ""))
    )
    told.tell(
        PassRun(pass_name="RMSNormQuantFusionPass", graph="0/0", index=1, custom=True, duration_us=2210.0),
        parent,
    )
    pattern = Pattern(
        name="rms_norm_static_quant", where=Where(str(file), 4, "pattern"), anchors=["serve.quant.default"],
        ops=["serve.rms_norm.default"], nodes=2,
        steps=[
            "rms_norm = serve.rms_norm.default(x, weight, 1e-05)",
            "quant = serve.quant.default(rms_norm, scale)",
        ],
    )  # fmt: skip
    applied = told.tell(
        PatternPass(
            **pass_, graph_id=2, stage="post-grad", patterns=[pattern], attempted=4, duration_us=1900.0,
            attempted_by={pattern.name: 4}, us_by={pattern.name: 1800.0}, compile_id="0/0",
        ),
        parent,
    )  # fmt: skip
    miss = NearMiss(
        reason="arg-mismatch", stage="second", node="rms_norm", wanted="eps=1e-05 of serve.rms_norm.default",
        found="eps=1e-06", matched_nodes=1, pattern_nodes=2, where=where,
    )  # fmt: skip
    for layer in range(4):
        anchor = "quant" if layer == 0 else f"quant_{layer}"
        told.tell(
            MatchAttempt(
                **pass_, pattern=pattern.name, graph_id=2, anchor=anchor, outcome="missed", near=True,
                near_nodes=["rms_norm"], miss=miss, where=where, compile_id="0/0",
            ),
            applied,
        )  # fmt: skip
    told.tell(Graph(graph="0/0", stage="post-grad", text=after, compile_id="0/0", ops=_OPS, inputs=2), parent)


_VIEW = '    view: "f32[s0, 64][64, 1]cpu" = aten.view.default(arg0_1, [-1, 64])\n'


def _split(told: Told, parent: int) -> None:
    hidden = [Boundary(name="x", shape=["s0", "64"], dtype="float32")]
    size = [Boundary(name="s0", type="SymInt")]
    for number in range(9):
        splitting = number % 2 == 1
        told.tell(
            Piece(
                graph="Decoder", piece=f"piece {number}", piece_kind="splitting" if splitting else "compiled",
                ops=1 if splitting else (2 if number in (0, 8) else 4),
                split_op="serve::attention" if splitting else None,
                shared_with="piece 2" if not splitting and number in (4, 6) else None,
                inputs=hidden + size, outputs=hidden,
            ),
            parent,
        )  # fmt: skip
        if not splitting and number not in (4, 6):
            told.tell(PieceCompiled(graph="Decoder", piece=f"piece {number}", range="1-512"), parent)


def _caches(told: Told, parent: int) -> None:
    changed = [FactorChange(name="torch_version", before="2.12.1", after="2.13.0")]
    told.tell(
        CacheLookup(
            layer="ours", result="miss", graph="Decoder piece 0", range="1-512", key="9f3c11aa02d4c5e7",
            reason="torch_version differs", nearest_key="11d0c2", changed_factors=changed, compile_id="0/0",
        ),
        parent,
    )  # fmt: skip
    told.tell(
        CacheLookup(layer="twin", result="hit", graph="Decoder piece 4", key="9f3c11aa02d4c5e8"), parent
    )


def _guards(told: Told, frame: str, where: Where, parent: int) -> None:
    by = {"kept": False, "dropped_by": f"drop_all ({where.file}:4)"}
    guards = [
        Guard(type="SHAPE_ENV", expr="L['x'].size()[0] <= 16", source="L['x'].size()[0]", where=where, **by),
        Guard(
            type="TENSOR_MATCH",
            expr="check_tensor(L['x'], torch.float32)",
            source="L['x']",
            where=where,
            **by,
        ),
        Guard(
            type="CONSTANT_MATCH", expr="L['self'].eps == 1e-06", source="L['self'].eps", where=where, **by
        ),
    ]
    entry = told.tell(
        Guards(frame=frame, compile_id="0/0", guards=guards, drop_requested=True, audit="on"), parent
    )  # fmt: skip
    told.wait(1.0)
    violation = GuardViolation(
        frame=frame, compile_id="0/0", call=17, expr="L['x'].size()[0] <= 16", type="SHAPE_ENV",
        source="L['x'].size()[0]", wanted="x.shape[0] <= 16", seen="x.shape[0] = 17", guard_kind="shape",
        effect="differs", why="the branch taken while tracing is the only one in the compiled code.",
        where=where, cause="size", name="x.shape[0]",
    )  # fmt: skip
    told.tell(violation, entry)
    told.tell(
        GuardAudit(
            frame=frame, compile_id="0/0", calls=128, checked=127, violations={violation.expr: 9},
            causes={"size": 9},
        ),
        entry,
    )  # fmt: skip
    told.tell(FrameCalls(frame=frame, compile_id="0/0", calls=128), entry)


def _recompiled(told: Told, file: Path) -> None:
    where = at(file, "return logits.softmax", "sample")
    frame = f"{file}:{where.line - 1}:sample"
    told.tell(
        CompileRequest(target="sample", where=where, request="4711.2", code=frame, backend="inductor")
    )  # fmt: skip
    for number in range(6):
        compile_id = f"1/{number}"
        if number:
            told.tell(
                RecompileReason(
                    frame=frame, compile_id=compile_id, failed_compile_id=f"1/{number - 1}", where=where,
                    reason=f"G['config'].mode == 'mode{number - 1}'  # return logits.softmax(-1) * step",
                )
            )  # fmt: skip
        with told.phase("dynamo", compile_id=compile_id) as dynamo:
            start = told.tell(
                FrameStart(frame=frame, compile_id=compile_id, where=where, request="4711.2", name="sample"),
                dynamo,
            )
            told.wait(0.7)
            told.tell(
                FrameEnd(
                    frame=frame, compile_id=compile_id, result="compiled", duration_ms=700.0, graph_ops=2
                ),
                start,
            )
            told.tell(FrameCalls(frame=frame, compile_id=compile_id, calls=3 + number), start)


def _captured(told: Told, file: Path) -> None:
    item = at(file, ".item()", "pick")
    for size in (1, 2, 4, 8):
        told.wait(0.05)
        told.tell(Capture(graph="Decoder", piece="piece 0", size=size, duration_ms=12.5, bytes=2 << 20))
    told.tell(
        Capture(
            graph="Decoder", piece="", size=16, error="aten._local_scalar_dense.default waits for the device",
            fault="sync", op="aten._local_scalar_dense.default", thread="MainThread", where=item,
            stack=[at(file, "x = block(x)"), item], mode="FULL",
        )
    )  # fmt: skip
    for size, padded, replays, eager in (
        (1, 1, 40, 0), (2, 2, 12, 0), (3, 4, 31, 0), (5, 8, 8, 0), (8, 8, 25, 0), (16, None, 0, 22),
        (40, None, 0, 6),
    ):  # fmt: skip
        told.tell(
            Dispatch(
                graph="Decoder", size=size, compiled_as="1-512", padded_to=padded, replays=replays,
                eager_calls=eager, captures=1 if padded == size else 0,
            )
        )  # fmt: skip
