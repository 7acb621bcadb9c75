"""What Dynamo's code calls: the stitched pieces behind a `SizedCall`, savable and loadable as a whole."""

from __future__ import annotations

import contextlib
import contextvars
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from torch._dynamo.aot_compile import SerializableCallable

from compdbg import probe
from compdbg.compiler import kernels
from compdbg.compiler.codegen import graph_code
from compdbg.compiler.compiler_interface import CompilerInterface, make_compiler, uses_inductor
from compdbg.compiler.config import CompilationConfig
from compdbg.compiler.cuda_graph import wrap_piece
from compdbg.compiler.dynamic_spec import DynamicSpec
from compdbg.compiler.graph_data import dump_graph, load_graph
from compdbg.compiler.partitions import Statics, capturing_parts
from compdbg.compiler.piece_options import options_said
from compdbg.compiler.pieces import Piece, Split
from compdbg.compiler.piecewise_backend import Compiled, PiecewiseBackend
from compdbg.compiler.readable import decompiled, graph_text
from compdbg.compiler.splitting import COMPILED
from compdbg.compiler.static_inputs import SizedCall
from compdbg.compiler.stitched import Stitched
from compdbg.compiler.work_record import WorkRecord
from compdbg.events import Piece as PieceEvent
from compdbg.events import PieceCompiled, SplitOpUnmatched

_MOST_BYTES = 16 << 20
"""Of graphs that are kept for comparing only."""
_into: contextvars.ContextVar[tuple[str, CompilationConfig]] = contextvars.ContextVar("compdbg_loading_into")


@contextlib.contextmanager
def loading(name: str, config: CompilationConfig) -> Iterator[None]:
    """Models loaded inside the block get this name, and are served as this configuration says."""
    token = _into.set((name, config))
    try:
        yield
    finally:
        _into.reset(token)


class CompiledModel(SerializableCallable):  # type: ignore[misc]
    """A compiled graph, from its flat inputs to its outputs."""

    def __init__(
        self,
        name: str,
        config: CompilationConfig,
        split: Split,
        pieces: Mapping[str, PiecewiseBackend],
        spec: DynamicSpec,
        static: frozenset[str],
        statics: Statics,
    ) -> None:
        self.name = name
        self.config = config
        self.split = split
        self.pieces = dict(pieces)
        self.spec = spec
        self.static = static
        self._statics = statics
        self.operators: dict[str, str] = {}
        """Factors of the operators in the graph."""
        self.reports: list[PieceEvent | SplitOpUnmatched] = []
        """What was said of the split: told again where the model is loaded."""
        called = {p.name: self._called(p) if p.kind == COMPILED else p.module for p in split.pieces}
        self.stitched = Stitched(split, called, name)
        self.sized = SizedCall(self.stitched, spec, config, name, split)
        self._call: Callable[..., Sequence[Any]] = self.sized
        if split.returned_sizes is not None:
            self._call = _with_sizes(self._call, split, split.returned_sizes)

        if config.use_inductor_graph_partition:
            self._call = self._noting_statics(self._call)

    def __call__(self, *inputs: Any) -> Sequence[Any]:
        return self._call(*inputs)

    def _noting_statics(self, call: Callable[..., Sequence[Any]]) -> Callable[..., Sequence[Any]]:
        def noting(*inputs: Any) -> Sequence[Any]:
            if not self._statics.addresses:
                self._statics.note(inputs, sorted(self.spec.static))
            return call(*inputs)

        return noting

    def _called(self, piece: Piece) -> Any:
        fresh = self.split.fresh
        runnable = self.pieces[piece.name].simplest()
        if self.config.use_inductor_graph_partition:
            return runnable
        return wrap_piece(
            runnable,
            graph=self.name,
            piece=piece.name,
            from_splitting=[i for i, name in enumerate(piece.inputs) if name in fresh],
            static=[i for i, name in enumerate(piece.inputs) if name in self.static],
            config=self.config,
        )

    @property
    def can_be_kept(self) -> bool:
        """Whether every piece's compiler gave something to load it from."""
        return all(v.saved is not None for piece in self.pieces.values() for v in piece.versions.values())

    @classmethod
    def serialize_compile_artifacts(cls, fn: Any) -> bytes:
        """Everything but how it is served: pieces by what they are loaded from, each once."""
        versions = {v.key: v for p in fn.pieces.values() for v in p.versions.values()}
        pieces = fn.split.pieces + ([fn.split.returned_sizes] if fn.split.returned_sizes else [])
        return pickle.dumps(
            {
                "inputs": fn.split.inputs,
                "outputs": fn.split.outputs,
                "returned_at": fn.split.returned_at,
                "pieces": [(p.name, p.kind, p.inputs, p.outputs, p.split_ops) for p in pieces],
                "graphs": {p.name: dump_graph(p.module) for p in pieces if p.kind != COMPILED},
                "compiled_graphs": _kept_graphs(fn.split.compiled),
                "versions": {
                    k: (v.saved, v.libraries, msgspec.json.encode(v.record)) for k, v in versions.items()
                },
                "backends": {name: piece.state() for name, piece in fn.pieces.items()},
                "spec": fn.spec,
                "static": fn.static,
            }
        )

    @classmethod
    def deserialize_compile_artifacts(cls, data: bytes) -> Any:
        """Inside `loading`; raises whatever a compiler raises that can't load its own."""
        state = pickle.loads(data)
        name, config = _into.get()
        compiler, statics = make_compiler(config), Statics()
        with capturing_parts(name, config, statics):
            versions = {key: _load(compiler, key, *saved) for key, saved in state["versions"].items()}
        graphs = {name: load_graph(graph) for name, graph in state["graphs"].items()}
        pieces = [
            Piece(name=n, kind=kind, module=graphs.get(n), inputs=i, outputs=o, split_ops=ops)
            for n, kind, i, o, ops in state["pieces"]
        ]
        late = pieces.pop() if state["returned_at"] else None
        split = Split(
            inputs=state["inputs"],
            pieces=pieces,
            outputs=state["outputs"],
            returned_sizes=late,
            returned_at=state["returned_at"],
            kept_graphs=state.get("compiled_graphs", {}),
        )
        backends = {
            name: PiecewiseBackend.from_state(name, saved, versions)
            for name, saved in state["backends"].items()
        }
        return cls(name, config, split, backends, state["spec"], state["static"], statics)

    def readable(self, result: Any) -> dict[str, str]:
        """Copies for people, by file name; `result` is Dynamo's callable around this one."""
        return {
            "computation_graph.py": graph_text(self.split),
            "transformed_code.py": decompiled(result._artifacts.runtime_env.bytecode),
        }

    def report(self) -> list[dict[str, Any]]:
        """What is said of the pieces when the model is loaded: plain data."""
        return [msgspec.to_builtins(event) for event in self.reports]

    def emit_report(self, pieces: Sequence[Any], made: float) -> None:
        """Say what was loaded: pieces, versions, and what is known of how they were made."""
        if not probe.active():
            return
        for data in pieces:
            event: Any = msgspec.convert(data, PieceEvent | SplitOpUnmatched)
            loaded = {"loaded": True} if isinstance(event, PieceEvent) else {}
            probe.emit(msgspec.structs.replace(event, graph=self.name, **loaded))
        said: set[str] = set()
        inductor = uses_inductor(self.config)
        for name, piece in self.pieces.items():
            for each, version in piece.versions.items():
                text = str(each)
                probe.emit(
                    PieceCompiled(
                        graph=self.name,
                        piece=name,
                        range=text,
                        reused=True,
                        backend=self.config.backend,
                        options=options_said(self.config, each) if inductor else {},
                    )
                )
                if version.key not in said:
                    said.add(version.key)
                    version.record.emit("aot", version.key, f"{self.name} {name} {text}", made)


def _kept_graphs(pieces: Sequence[Piece]) -> dict[str, bytes]:
    """What compiled pieces were made from, to compare with; nothing where it can't be kept, or is large."""
    try:
        kept = {piece.name: dump_graph(piece.module) for piece in pieces}
    except Exception:  # as many kinds as there are values that can't be pickled
        return {}
    return kept if sum(map(len, kept.values())) <= _MOST_BYTES else {}


def _load(
    compiler: CompilerInterface, key: str, saved: bytes, libraries: dict[str, bytes], record: bytes
) -> Compiled:
    with kernels.giving(libraries):
        runnable = compiler.load(saved)
    return Compiled(
        key=key,
        runnable=runnable,
        saved=saved,
        libraries=libraries,
        record=msgspec.json.decode(record, type=WorkRecord),
    )


def _with_sizes(
    call: Callable[..., Sequence[Any]], split: Split, sizes: Piece
) -> Callable[..., Sequence[Any]]:
    """The call, with the sizes that the graph returns put among its outputs: the caller's own."""
    compute = graph_code(sizes.module, "sizes").build()
    taken = [split.inputs.index(name) for name in sizes.inputs]
    places = split.returned_at

    def call_with_sizes(*inputs: Any) -> Sequence[Any]:
        outputs = list(call(*inputs))
        for place, size in zip(places, compute(*(inputs[i] for i in taken)), strict=True):
            outputs.insert(place, size)
        return outputs

    return call_with_sizes
